//! The notation of messages in stories: `Q "begin"`, `P s1 "select 1"`, `Z T`, with a comma between them.
//!
//! Always true: the notation of bytes is read back as the same bytes, except `"x"*1000`, which stands for a long text of
//! one letter, and `{{Q a,*1000}}`, which stands for a repetition.

use wire::backend::TxStatus;
use wire::write::{self, Says};

/// Who sends the messages, which decides what their letters mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The bytes of messages.
pub(crate) fn bytes(side: Side, text: &str) -> Vec<u8> {
    let (mut out, mut text) = (Vec::new(), text.to_owned());
    while let Some((before, rest)) = text.split_once("{{")
        && let Some((repeated, behind)) = rest.split_once("}}")
    {
        let (repeated, times) = repeated.rsplit_once('*').expect("{{TEXT*TIMES}}");
        text = format!("{before}{}{behind}", repeated.repeat(times.parse().expect("a number of times")));
    }
    for message in split(&text, ',') {
        let words: Vec<String> = split(message.trim(), ' ').iter().map(|word| unquoted(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match side {
            Side::Client => of_client(&mut out, &words),
            Side::Server => of_server(&mut out, &words),
        }
    }
    out
}

fn of_client(out: &mut Vec<u8>, words: &[&str]) {
    match words {
        ["Q", text] => write::query(out, text),
        // With the OIDs of its parameters' types.
        ["P", name, text, types @ ..] => {
            let types = types.iter().map(|number| number.parse::<u32>().expect("the number of a type"));
            write::parse(out, name.as_bytes(), text, types);
        }
        ["B", portal, statement, values @ ..] => write::message(out, b'B', |out| {
            write::c_string(out, portal);
            write::c_string(out, statement);
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&(values.len() as u16).to_be_bytes());
            for value in values {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value.as_bytes());
            }
            out.extend_from_slice(&[0, 0]);
        }),
        [kind @ ("D" | "C"), what, name] => write::message(out, kind.as_bytes()[0], |out| {
            out.extend_from_slice(what.as_bytes());
            write::c_string(out, name);
        }),
        ["E", portal, rows @ ..] => write::message(out, b'E', |out| {
            write::c_string(out, portal);
            let rows = rows.first().map_or(0, |rows| rows.parse::<u32>().expect("a number of rows"));
            out.extend_from_slice(&rows.to_be_bytes());
        }),
        ["F", oid] => write::message(out, b'F', |out| {
            out.extend_from_slice(&oid.parse::<u32>().expect("an OID").to_be_bytes());
            out.extend_from_slice(&[0; 6]);
        }),
        ["d", text] => write::message(out, b'd', |out| out.extend_from_slice(text.as_bytes())),
        ["f", text] => write::message(out, b'f', |out| write::c_string(out, text)),
        ["raw", hex] => out.extend(
            (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two hexadecimal digits")),
        ),
        [kind @ ("S" | "H" | "X" | "c")] => write::bare(out, kind.as_bytes()[0]),
        other => panic!("no message of a client: {other:?}"),
    }
}

fn of_server(out: &mut Vec<u8>, words: &[&str]) {
    match words {
        ["Z", status] => write::ready_for_query(out, TxStatus::parse(status.as_bytes()).expect("a status")),
        ["C", tag] => write::command_complete(out, tag),
        ["S", name, value] => write::parameter_status(out, name, value),
        ["E", sqlstate, message] => write::error(out, says("ERROR", sqlstate, message)),
        ["E!", sqlstate, message] => write::error(out, says("FATAL", sqlstate, message)),
        // The name of the routine tells what was refused, whatever the language of the message.
        ["E", sqlstate, message, routine] => write::message(out, b'E', |out| {
            for (code, text) in [('S', "ERROR"), ('V', "ERROR"), ('C', sqlstate), ('M', message), ('R', routine)] {
                out.push(code as u8);
                write::c_string(out, text);
            }
            out.push(0);
        }),
        ["N", sqlstate, message] => write::notice(out, says("NOTICE", sqlstate, message)),
        ["N", message] => write::notice(out, says("NOTICE", "00000", message)),
        ["A", channel, payload] => write::message(out, b'A', |out| {
            out.extend_from_slice(&[0; 4]);
            write::c_string(out, channel);
            write::c_string(out, payload);
        }),
        ["D", values @ ..] => write::data_row(out, values.iter().map(|value| (*value != "NULL").then_some(value))),
        ["d", text] => write::message(out, b'd', |out| out.extend_from_slice(text.as_bytes())),
        ["T"] => write::message(out, b'T', |out| out.extend_from_slice(&[0, 0])),
        [kind @ ("t" | "G" | "H" | "W")] => {
            write::message(out, kind.as_bytes()[0], |out| out.extend_from_slice(&[0, 0]));
        }
        ["V"] => write::message(out, b'V', |out| out.extend_from_slice(&[0xff; 4])),
        ["raw", hex] => out.extend(
            (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two hexadecimal digits")),
        ),
        [kind @ ("1" | "2" | "3" | "n" | "s" | "I" | "c")] => write::bare(out, kind.as_bytes()[0]),
        other => panic!("no message of a server: {other:?}"),
    }
}

fn says<'a>(severity: &'static str, sqlstate: &'a str, message: &'a str) -> Says<'a> {
    Says { severity, sqlstate, message, detail: None, hint: None }
}

/// Messages in the notation; an incomplete message is shown by its length.
pub(crate) fn words(side: Side, mut bytes: &[u8]) -> String {
    let mut out = Vec::new();
    while let Some(header) = bytes.first_chunk::<5>() {
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize + 1;
        if length < 5 || bytes.len() < length {
            break;
        }
        let (message, rest) = bytes.split_at(length);
        out.push(message_in_words(side, message[0], &message[5..]));
        bytes = rest;
    }
    if !bytes.is_empty() {
        out.push(format!("+{} bytes", bytes.len()));
    }
    out.join(", ")
}

fn message_in_words(side: Side, kind: u8, body: &[u8]) -> String {
    let strings: Vec<String> = body.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into()).collect();
    let string = |at: usize| quoted(strings.get(at).map_or("", String::as_str));
    let letter = char::from(kind);
    match (side, kind) {
        (Side::Client, b'Q' | b'f') | (Side::Server, b'C') => format!("{letter} {}", string(0)),
        (Side::Client, b'P') => {
            let types = body.get(strings[0].len() + strings[1].len() + 2..).and_then(|rest| rest.first_chunk());
            let types = types.map_or(0, |count| u16::from_be_bytes(*count));
            let types = if types > 0 { format!(" +{types} types") } else { String::new() };
            format!("P {} {}{types}", string(0), string(1))
        }
        (Side::Client, b'B') if body.iter().filter(|byte| **byte == 0).count() >= 2 => {
            let at = body.iter().position(|byte| *byte == 0).unwrap_or(0) + 1;
            let statement = body[at..].iter().position(|byte| *byte == 0).unwrap_or(0);
            let values = &body[at + statement + 1..];
            let values = if values.len() < 6 {
                " broken".to_owned()
            } else if values.len() > 6 {
                format!(" +{} bytes", values.len() - 6)
            } else {
                String::new()
            };
            format!("B {} {}{values}", string(0), string(1))
        }
        (Side::Client, b'D' | b'C') => {
            let name = quoted(&String::from_utf8_lossy(&body[1..body.len().max(2) - 1]));
            format!("{letter} {} {name}", char::from(body[0]))
        }
        (Side::Client, b'E') if body.len() == strings[0].len() + 5 => format!("E {}", string(0)),
        (Side::Client, b'E') => format!("E {} broken", string(0)),
        (_, b'd') => format!("d {}", quoted(&String::from_utf8_lossy(body))),
        (Side::Server, b'Z') => format!("Z {}", char::from(body[0])),
        (Side::Server, b'S') => format!("S {} {}", string(0), string(1)),
        (Side::Server, b'E' | b'N') => {
            let field = |code: char| {
                strings.iter().find_map(|field| field.strip_prefix(code)).map_or(String::new(), str::to_owned)
            };
            let fatal = if field('S') == "FATAL" { "!" } else { "" };
            match kind {
                b'N' => format!("N {}", quoted(&field('M'))),
                _ => format!("E{fatal} {} {}", field('C'), quoted(&field('M'))),
            }
        }
        (Side::Server, b'A') => {
            let strings: Vec<_> = body[4..].split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            format!("A {} {}", quoted(&strings[0]), quoted(&strings[1]))
        }
        (Side::Server, b'D') => {
            let mut values = String::new();
            let mut rest = &body[2..];
            while let Some(length) = rest.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) {
                rest = &rest[4..];
                match usize::try_from(length) {
                    Ok(length) => {
                        values += &format!(" {}", quoted(&String::from_utf8_lossy(&rest[..length])));
                        rest = &rest[length..];
                    }
                    Err(_) => values += " NULL",
                }
            }
            format!("D{values}")
        }
        _ => letter.to_string(),
    }
}

/// A word as it is, or any other text between quotation marks.
fn quoted(text: &str) -> String {
    let first = text.chars().next();
    if text.len() > 40 && text.chars().all(|letter| Some(letter) == first) {
        return format!("\"{}\"*{}", &text[..1], text.len());
    }
    if text.len() > 1000 {
        return format!("{:?}... {} bytes", &text[..40], text.len());
    }
    let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_word { text.to_owned() } else { format!("{text:?}").replace("\\'", "'") }
}

fn unquoted(word: &str) -> String {
    let Some(rest) = word.strip_prefix('"') else { return word.to_owned() };
    let (text, times) = rest.rsplit_once('"').expect("a text ends with a quotation mark");
    let text = text.replace("\\n", "\n").replace("\\\"", "\"");
    match times.strip_prefix('*') {
        Some(times) => text.repeat(times.parse().expect("a number of times")),
        None => text,
    }
}

/// The parts of a text between separators that stand outside of quotation marks.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            _ if letter == separator && !is_quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}
