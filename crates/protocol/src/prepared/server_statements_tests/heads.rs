//! How messages about statements are read.

use super::*;

#[test]
fn messages_are_understood_as_far_as_they_are_here() {
    let plain = |kind: u8, body: &[u8]| head(kind, body, 50) == Ok(Head::Plain);
    assert_eq!(head(b'P', b"\0q\0\0\0", 5), Ok(Head::Plain));
    assert_eq!(head(b'P', b"\0", 2 << 20), Ok(Head::Plain));
    assert!(plain(b'B', b"\0\0") && plain(b'B', b"portal\0\0") && plain(b'D', b"P"));
    assert!(plain(b'D', b"S\0") && plain(b'C', b"P") && plain(b'C', b"S\0") && plain(b'C', b"?") && plain(b'E', b""));
    let more = |kind: u8, body: &[u8]| head(kind, body, 50) == Ok(Head::More);
    assert!(
        more(b'P', b"")
            && more(b'P', b"\0")
            && more(b'P', b"a")
            && more(b'P', b"a\0select 1\0\0\0")
            && more(b'C', b"S")
    );
    assert!(more(b'B', b"") && more(b'B', b"\0") && more(b'B', b"\0a") && more(b'D', b"") && more(b'D', b"Sa\0"));
    let named = |kind: u8, body: &'static [u8]| match head(kind, body, body.len()) {
        Ok(Head::Named(ask)) => ask,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(b'P', b"a\0q\0\0\0"), Ask::Parse { name: b"a", text: b"q\0\0\0" });
    assert_eq!(named(b'B', b"p\0a\0\0\0\0\0\0\0"), Ask::Bind { portal: b"p", name: b"a", end: 4 });
    assert_eq!(named(b'D', b"Sa\0"), Ask::Describe { name: b"a" });
    assert_eq!(named(b'C', b"Sa\0"), Ask::Close { name: b"a" });
    // The names of a Bind are enough.
    assert_eq!(head(b'B', b"\0a\0rest", 1 << 30), Ok(Head::Named(Ask::Bind { portal: b"", name: b"a", end: 3 })));
}

#[test]
fn broken_messages_are_said_to_be() {
    let broken: [(u8, &[u8]); 12] = [
        (b'P', b""),
        (b'P', b"a"),
        (b'P', b"a\0q"),
        (b'P', b"a\0q\0\0"),
        (b'P', b"a\0q\0\0\x01\0\0\0"),
        (b'P', b"a\0q\0\0\0more"),
        (b'B', b"p"),
        (b'B', b"p\0a"),
        (b'D', b""),
        (b'D', b"Sa"),
        (b'C', b"S"),
        (b'C', b"Sa\0more"),
    ];
    for (kind, body) in broken {
        assert_eq!(head(kind, body, body.len()), Err(Fault::BrokenMessage { kind }), "{body:?}");
    }
}

#[test]
fn a_name_has_an_end() {
    let long = vec![b'n'; 3 * NAME_BYTES_MAX];
    for kind in [b'P', b'B', b'D'] {
        let body = if kind == b'D' { [b"S", &long[..]].concat() } else { long.clone() };
        assert_eq!(head(kind, &body, 1 << 20), Err(Fault::BrokenMessage { kind }));
        assert_eq!(head(kind, &body[..NAME_BYTES_MAX], 1 << 20), Ok(Head::More));
    }
}

#[test]
fn of_a_long_name_as_much_is_known_as_postgresql_looks_at() {
    let (long, known) = ([b'n'; 1000], [b'n'; 63]);
    let said = |before: &[u8], after: &[u8]| [before, &long, after].concat();
    let is = |kind: u8, body: &[u8], ask: Ask<'_>| assert_eq!(head(kind, body, body.len()), Ok(Head::Named(ask)));
    is(b'P', &said(b"", b"\0q\0\0\0"), Ask::Parse { name: &known, text: b"q\0\0\0" });
    is(b'B', &said(b"p\0", b"\0rest"), Ask::Bind { portal: b"p", name: &known, end: 1003 });
    is(b'D', &said(b"S", b"\0"), Ask::Describe { name: &known });
    is(b'C', &said(b"S", b"\0"), Ask::Close { name: &known });
    assert_eq!(given_name(&said(b"", b"\0q")), Some(&known[..]));
}
