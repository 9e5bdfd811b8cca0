//! The context of a trace (W3C Trace Context, level 1) that a statement carries in a comment, as sqlcommenter writes it:
//! `select 1 /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/`.
//!
//! Always true: no more than the last and the first [`COMMENT_BYTES_MAX`] bytes of a text are examined; what is not
//! exactly a `traceparent` is ignored; a `tracestate` is not longer than [`STATE_BYTES_MAX`].
//! Not here: which traces have spans (`worker::observe::spans`).

/// The parent of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span of the application that sends the statement.
    pub span_id: [u8; 8],
    /// The application itself records the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses the value of a `traceparent`.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, rest) = hex::<1>(value)?;
        let (trace_id, rest) = hex::<16>(rest.strip_prefix(b"-")?)?;
        let (span_id, rest) = hex::<8>(rest.strip_prefix(b"-")?)?;
        let ([flags], rest) = hex::<1>(rest.strip_prefix(b"-")?)?;
        let is_whole = match version {
            [0] => rest.is_empty(),
            [0xff] => false,
            // A later version may have more fields behind these.
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let is_any = trace_id != [0; 16] && span_id != [0; 8];
        (is_whole && is_any).then_some(Self { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }
}

/// The `traceparent` in the comment before or behind a statement. `is_whole` tells whether `text` is complete: the
/// comment behind is looked for only then. The statement itself is not read: a text that ends with `*/` ends with a
/// comment, or is no SQL.
#[must_use]
pub fn traceparent(text: &[u8], is_whole: bool) -> Option<TraceParent> {
    let behind = if is_whole { comment_behind(text) } else { None };
    behind.and_then(in_comment).or_else(|| comment_before(text).and_then(in_comment))
}

/// The `tracestate` in the comment that has the `traceparent` of a text, which it needs; empty if there is none. Percent
/// encoding, which sqlcommenter applies, is decoded. Of a value of more than [`STATE_BYTES_MAX`] bytes the first members
/// are kept, as W3C Trace Context allows; a value with anything but printable ASCII is ignored.
#[must_use]
pub fn tracestate(text: &[u8], is_whole: bool) -> String {
    let behind = if is_whole { comment_behind(text) } else { None };
    let comment = behind.filter(|comment| in_comment(comment).is_some()).or_else(|| comment_before(text));
    let value = comment.filter(|comment| in_comment(comment).is_some()).and_then(state_in).map(decoded);
    let value = value.filter(|value| value.contains('=') && value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    let Some(mut value) = value else { return String::new() };
    if value.len() > STATE_BYTES_MAX {
        let end = value[..=STATE_BYTES_MAX].rfind(',').unwrap_or(0);
        value.truncate(end);
    }
    value
}

/// The text between the quotes of a `tracestate`. Commas may be in it.
fn state_in(comment: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = b"tracestate";
    let places = comment.windows(KEY.len()).enumerate().filter(|(_, window)| *window == KEY);
    let mut values = places.filter_map(|(at, _)| {
        let is_key = comment[..at].trim_ascii_end().last().is_none_or(|before| *before == b',');
        let rest = comment[at + KEY.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let value = rest.strip_prefix(b"'").filter(|_| is_key)?;
        let (value, after) = value.split_at(value.iter().position(|byte| *byte == b'\'')?);
        after[1..].trim_ascii_start().first().is_none_or(|next| *next == b',').then_some(value)
    });
    values.next()
}

/// Decodes `%2C` and the like; what is no valid text becomes a character that no `tracestate` may have.
fn decoded(value: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escaped = match (byte, after) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(byte, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &rest[2..] } else { rest };
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The content of the last comment, if nothing but blanks and a semicolon follows it.
fn comment_behind(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let text = text.strip_suffix(b"*/")?;
    let text = &text[text.len().saturating_sub(COMMENT_BYTES_MAX)..];
    let begin = text.windows(2).rposition(|two| two == b"/*")?;
    Some(&text[begin + 2..])
}

/// The content of the comment with which a text begins.
fn comment_before(text: &[u8]) -> Option<&[u8]> {
    let text = text[..text.len().min(COMMENT_BYTES_MAX)].trim_ascii_start().strip_prefix(b"/*")?;
    let end = text.windows(2).position(|two| two == b"*/")?;
    Some(&text[..end])
}

fn in_comment(comment: &[u8]) -> Option<TraceParent> {
    let mut pairs = comment.split(|byte| *byte == b',');
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(b"traceparent")?.trim_ascii_start().strip_prefix(b"=")?;
        TraceParent::parse(value.trim_ascii_start().strip_prefix(b"'")?.strip_suffix(b"'")?)
    })
}

/// Parses this many bytes of lower-case hexadecimal digits; also returns what follows them.
fn hex<const N: usize>(text: &[u8]) -> Option<([u8; N], &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * N)?;
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some((bytes, rest))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The only flag that a `traceparent` has.
const SAMPLED: u8 = 1;
/// The longest `tracestate` that is passed on.
pub const STATE_BYTES_MAX: usize = 512;
/// How many bytes of a comment are examined.
const COMMENT_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(value: &str) -> Option<TraceParent> {
        TraceParent::parse(value.as_bytes())
    }

    fn found(text: &str) -> bool {
        traceparent(text.as_bytes(), true) == parse(GOOD)
    }

    #[test]
    fn a_traceparent_is_read_digit_by_digit() {
        let good = parse(GOOD).expect("a good one");
        assert_eq!((good.trace_id[0], good.trace_id[15], good.span_id[1]), (0x4b, 0x36, 0xf0));
        assert!(good.is_sampled);
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let other = parse(&format!("{}{flags}", &GOOD[..53])).expect("a good one");
            assert_eq!(other.is_sampled, is_sampled, "{flags}");
        }
        assert_eq!(parse(&format!("cc{}", &GOOD[2..])), Some(good));
        assert_eq!(parse(&format!("cc{}-more", &GOOD[2..])), Some(good));
    }

    #[test]
    fn what_is_not_exactly_one_is_none() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}0"),
            &format!("{GOOD}-more"),
            &format!("ff{}", &GOOD[2..]),
            &format!("cc{}more", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace('-', "_"),
            &GOOD.replace('4', "g"),
            &zero_trace,
            &zero_span,
            &"a".repeat(10_000),
            &format!(" {GOOD}"),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn it_stands_in_the_comment_before_or_behind() {
        for text in [
            format!("select 1 /*traceparent='{GOOD}'*/"),
            format!("select 1/*application='shop',traceparent='{GOOD}',tracestate='a%3Db'*/ ;\n"),
            format!("/* traceparent = '{GOOD}' */ select 1"),
            format!("/*traceparent='{GOOD}'*/ select 1 /* other */"),
            format!("  /*traceparent='{GOOD}'*/select '/*'"),
        ] {
            assert!(found(&text), "{text}");
        }
        for text in [
            format!("select 1 /*traceparent='{GOOD}'*/ + 1"),
            format!("select '/*traceparent=''{GOOD}''*/'"),
            format!("select 1 -- traceparent='{GOOD}'"),
            format!("select 1 /*traceparent={GOOD}*/"),
            format!("select 1 /*xtraceparent='{GOOD}'*/"),
            format!("select 1 /*traceparent='{GOOD}'{}*/", " ".repeat(10_000)),
            format!("{}/*traceparent='{GOOD}'*/ select 1", " ".repeat(10_000)),
            "*/".to_owned(),
            "/*/".to_owned(),
            String::new(),
        ] {
            assert!(!found(&text), "{text}");
        }
        let text = format!("select 1 /*traceparent='{GOOD}'*/");
        assert_eq!(traceparent(text.as_bytes(), false), None, "the end may be a part of something");
    }

    #[test]
    fn a_tracestate_goes_with_its_traceparent() {
        let state = |text: String| tracestate(text.as_bytes(), true);
        let with = |pair: &str| state(format!("select 1 /*application='x',{pair},traceparent='{GOOD}'*/"));
        assert_eq!(with("tracestate='a%3D1%2Cb%3D2'"), "a=1,b=2");
        assert_eq!(with("tracestate = 'a=1,b=2'"), "a=1,b=2");
        assert_eq!(state(format!("/*tracestate='a=1',traceparent='{GOOD}'*/ select 1 /* other */")), "a=1");
        for none in ["tracestate=''", "tracestate=a=1", "xtracestate='a=1'", "tracestate='a'", "tracestate='a%3D%00'"] {
            assert_eq!(with(none), "", "{none}");
        }
        assert_eq!(with("tracestate='a=%ff'"), "", "no text");
        assert_eq!(with("tracestate='a=1"), "", "no end");
        assert_eq!(state("select 1 /*tracestate='a=1'*/".to_owned()), "", "it means nothing alone");
        assert_eq!(state(format!("select $$/*tracestate='a=1'*/$$ /*traceparent='{GOOD}'*/")), "");
    }

    #[test]
    fn a_long_tracestate_loses_its_last_members() {
        let members: Vec<_> = (10..99).map(|number| format!("vendor{number}=value")).collect();
        let text = format!("select 1 /*traceparent='{GOOD}',tracestate='{}'*/", members.join(","));
        let told = tracestate(text.as_bytes(), true);
        assert!(told.len() <= STATE_BYTES_MAX && told.len() > STATE_BYTES_MAX - 20, "{}", told.len());
        assert!(members.join(",").starts_with(&told) && told.ends_with("=value"), "{told}");
        let text = format!("select 1 /*traceparent='{GOOD}',tracestate='a={}'*/", "x".repeat(600));
        assert_eq!(tracestate(text.as_bytes(), true), "", "one member");
    }
}
