//! Headers of the PROXY protocol, good and bad ones, in any pieces.

use proptest::prelude::*;

use super::*;

fn client(text: &str) -> Option<SocketAddr> {
    Some(text.parse().expect("an address"))
}

/// A header of version 2 with this command, family and content.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, content].concat()
}

fn malformed(bytes: &[u8]) -> &'static str {
    match read(bytes) {
        Err(HeaderFault::Malformed(why)) => why,
        other => panic!("{other:?} for {bytes:?}"),
    }
}

#[test]
fn a_line_tells_the_address_of_the_client() {
    for (line, told) in [
        ("PROXY TCP4 192.0.2.7 192.0.2.1 56324 5432\r\n", client("192.0.2.7:56324")),
        ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 0\r\n", client("255.255.255.255:65535")),
        ("PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n", client("[2001:db8::7]:1")),
        ("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", client("192.0.2.7:1")),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff:: what ever 1\r\n", None),
    ] {
        let header = Header { bytes: line.len(), client: told };
        assert_eq!(read(format!("{line}rest").as_bytes()), Ok(Some(header)), "{line}");
    }
}

#[test]
fn the_longest_line_is_read_and_a_longer_one_is_refused() {
    let address = ["ffff"; 8].join(":");
    let longest = format!("PROXY UNKNOWN {address} {address} 65535 65535\r\n");
    assert_eq!(longest.len(), LINE_BYTES_MAX);
    assert!(matches!(read(longest.as_bytes()), Ok(Some(Header { bytes: LINE_BYTES_MAX, client: None }))));
    let longer = longest.replace("UNKNOWN ", "UNKNOWN  ");
    assert_eq!(malformed(longer.as_bytes()), "its line is longer than 107 bytes");
    assert_eq!(read(&longer.as_bytes()[..LINE_BYTES_MAX - 1]), Ok(None));
}

#[test]
fn a_line_with_anything_else_in_it_is_refused() {
    for (line, why) in [
        ("PROXY TCP4 192.0.2.7 192.0.2.1 56324 5432\n", "CR LF"),
        ("PROXY tcp4 192.0.2.7 192.0.2.1 56324 5432\r\n", "transport"),
        ("PROXY UDP4 192.0.2.7 192.0.2.1 56324 5432\r\n", "transport"),
        ("PROXY \r\n", "transport"),
        ("PROXY TCP4  192.0.2.7 192.0.2.1 56324 5432\r\n", "address"),
        ("PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n", "address"),
        ("PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n", "address"),
        ("PROXY TCP4 192.0.2.07 192.0.2.1 1 2\r\n", "address"),
        ("PROXY TCP4 192.0.2.7\r\n", "address"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n", "port"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 +1 2\r\n", "port"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n", "port"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n", "port"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 \r\n", "after its ports"),
        ("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n", "after its ports"),
    ] {
        assert!(malformed(line.as_bytes()).contains(why), "{line}");
    }
    assert_eq!(malformed(b"PROXY \xff\r\n"), "its line is not text");
}

#[test]
fn a_binary_header_tells_the_address_of_the_client_and_its_tlvs_are_skipped() {
    let v4 = [192, 0, 2, 7, 192, 0, 2, 1, 0xdc, 4, 21, 56];
    let mut v6 = [0; 36];
    v6[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().expect("an address").octets());
    v6[32..34].copy_from_slice(&7u16.to_be_bytes());
    let with_tlv = [&v4[..], &[4, 0, 3, 0, 0, 0]].concat();
    for (header, told) in [
        (binary(0x21, 0x11, &v4), client("192.0.2.7:56324")),
        (binary(0x21, 0x11, &with_tlv), client("192.0.2.7:56324")),
        (binary(0x21, 0x21, &v6), client("[2001:db8::7]:7")),
        (binary(0x21, 0x31, &[b'/'; 216]), None),
        (binary(0x21, 0x00, b""), None),
        (binary(0x21, 0x00, b"any"), None),
        (binary(0x20, 0x00, b""), None),
        (binary(0x20, 0x11, &v4), None),
        (binary(0x20, 0xff, b"any"), None),
    ] {
        let bytes = header.len();
        assert_eq!(read(&[&header[..], b"\0\0\0\x08"].concat()), Ok(Some(Header { bytes, client: told })));
    }
}

#[test]
fn a_binary_header_that_is_not_understood_is_refused_as_soon_as_possible() {
    for (header, why) in [
        (binary(0x11, 0x11, &[0; 12]), "its version is not 2"),
        (binary(0x01, 0x11, &[0; 12]), "its version is not 2"),
        (binary(0x22, 0x11, &[0; 12]), "its command is neither LOCAL nor PROXY"),
        (binary(0x21, 0x12, &[0; 12]), "it is about datagrams"),
        (binary(0x21, 0x10, &[0; 12]), "its address family or transport is not known"),
        (binary(0x21, 0x41, &[0; 12]), "its address family or transport is not known"),
        (binary(0x21, 0x11, &[0; 11]), "it is too short for its addresses"),
        (binary(0x21, 0x21, &[0; 35]), "it is too short for its addresses"),
        (binary(0x21, 0x31, &[0; 215]), "it is too short for its addresses"),
        (binary(0x20, 0x00, &[0; 9_985]), "it is longer than 10000 bytes"),
    ] {
        assert_eq!(malformed(&header[..16]), why);
        assert_eq!(malformed(&header), why);
    }
    let longest = binary(0x20, 0x00, &[0; 9_984]);
    assert_eq!(read(&longest), Ok(Some(Header { bytes: 10_000, client: None })));
}

#[test]
fn what_begins_like_anything_else_is_no_header() {
    let startup = [0, 0, 0, 8, 4, 210, 22, 47];
    for bytes in [&startup[..], b"\0", b"\x16\x03\x01", b"proxy TCP4", b"PROXy ", b"\r\n\r\nGET", b"Q"] {
        assert_eq!(read(bytes), Err(HeaderFault::Missing), "{bytes:?}");
    }
    for beginning in [&b""[..], b"P", b"PROXY", b"PROXY ", b"\r", b"\r\n\r\n\0\r\nQUIT\n"] {
        assert_eq!(read(beginning), Ok(None), "{beginning:?}");
    }
}

#[test]
fn what_is_written_without_addresses_names_nobody() {
    let mut out = Vec::new();
    write(&mut out, Version::V1, None);
    assert_eq!(out, b"PROXY UNKNOWN\r\n");
    out.clear();
    write(&mut out, Version::V2, None);
    assert_eq!(out, binary(0x20, 0, b""));
}

#[test]
fn a_pair_of_two_families_is_written_as_ipv6() {
    let mut out = Vec::new();
    let ends = (client("[2001:db8::7]:1").expect("one"), client("192.0.2.1:2").expect("one"));
    write(&mut out, Version::V1, Some(ends));
    assert_eq!(out, b"PROXY TCP6 2001:db8::7 ::ffff:192.0.2.1 1 2\r\n");
}

/// Bytes that are, are like, or are not a header.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let line = "PROXY (TCP4|TCP6|UNKNOWN|X) ?[0-9a-f:. ]{0,110}(\r\n|\n|\r)?";
    let tail = || prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        tail(),
        (line, tail()).prop_map(|(line, tail)| [line.into_bytes(), tail].concat()),
        (any::<u8>(), any::<u8>(), any::<u16>(), tail()).prop_map(|(command, family, length, tail)| {
            let command = if command % 4 > 0 { 0x20 + command % 2 } else { command };
            let family = if family % 4 > 0 { [0, 0x11, 0x21, 0x31][usize::from(family % 4)] } else { family };
            let length = if length % 4 > 0 { length % 300 } else { length };
            [&SIGNATURE[..], &[command, family], &length.to_be_bytes(), &tail].concat()
        }),
    ]
}

proptest! {
    #[test]
    fn more_bytes_never_change_what_has_been_decided(bytes in input()) {
        let whole = read(&bytes);
        for end in 0..bytes.len() {
            match read(&bytes[..end]) {
                Ok(None) => {}
                decided => prop_assert_eq!(decided, whole, "after {} bytes", end),
            }
        }
        if let Ok(Some(header)) = whole {
            prop_assert!(header.bytes <= bytes.len());
            prop_assert_eq!(read(&bytes[..header.bytes]), whole);
            prop_assert_eq!(read(&bytes[..header.bytes - 1]), Ok(None));
        }
    }

    #[test]
    fn nobody_waits_for_more_than_the_longest_header(bytes in input(), more in any::<u8>()) {
        let endless = [bytes, vec![more; HEADER_BYTES_MAX]].concat();
        prop_assert_ne!(read(&endless), Ok(None));
    }

    #[test]
    fn what_is_written_is_read(
        source in any::<(IpAddr, u16)>(),
        target in any::<(IpAddr, u16)>(),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (source, target) = (SocketAddr::from(source), SocketAddr::from(target));
        for version in [Version::V1, Version::V2] {
            let mut out = Vec::new();
            write(&mut out, version, Some((source, target)));
            let header = Header { bytes: out.len(), client: Some(told(source.ip(), source.port())) };
            prop_assert!(out.len() <= LINE_BYTES_MAX);
            out.extend_from_slice(&rest);
            prop_assert_eq!(read(&out), Ok(Some(header)));
        }
    }
}
