//! The notation of messages in scripts: a name as in PostgreSQL's documentation, then its fields.
//!
//! Always true: what `encode` can write, `decode` reads back as the same words.
//! Not here: the order of messages (`script`).

use crate::message::{self, Complaint, frame, list, read_list, read_strings, strings};
use crate::peer::Frame;

/// Who sends a message: the same type byte means different things in the two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client side of a connection.
    Client,
    /// The server side of a connection.
    Server,
}

/// The bytes of a message.
///
/// # Errors
/// Why the words are not a message.
pub fn encode(sender: Sender, words: &[String]) -> Result<Vec<u8>, String> {
    let (name, fields) = words.split_first().ok_or("an empty message")?;
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or("");
    let number = |at: usize| field(at).parse::<u32>().unwrap_or(0);
    Ok(match name.as_str() {
        "hex" => hex(&fields)?,
        "text" => field(0).as_bytes().to_vec(),
        "frame" => frame(letter(field(0))?, field(1).as_bytes()),
        "header" => {
            [vec![letter(field(0))?], field(1).parse::<i32>().map_err(|e| e.to_string())?.to_be_bytes().into()].concat()
        }
        "random" => random(u64::from(number(0)), number(1) as usize),
        "Startup" => message::startup(0, &pairs(&fields)),
        "SSLRequest" => message::packet(&message::SSL_CODE.to_be_bytes()),
        "GSSENCRequest" => message::packet(&message::GSS_CODE.to_be_bytes()),
        _ => match sender {
            Sender::Client => encode_request(name, &fields)?,
            Sender::Server => encode_answer(name, &fields)?,
        },
    })
}

/// The words of a message.
pub fn decode(sender: Sender, message: &Frame) -> Vec<String> {
    let name = names(sender).iter().find(|(_, tag)| *tag == message.tag).map_or("unknown", |(name, _)| *name);
    let body = &message.body;
    let mut words = vec![name.to_string()];
    match name {
        "unknown" => words.push((message.tag as char).to_string()),
        "Query" | "Execute" | "CommandComplete" | "CopyFail" | "Password" => words.extend(read_strings(body, 1).0),
        "Parse" | "ParameterStatus" => words.extend(read_strings(body, 2).0),
        "Bind" => {
            let (names, rest) = read_strings(body, 2);
            words.extend(names);
            words.extend(read_list(&body[rest + 2..]).into_iter().map(or_null));
        }
        "Describe" | "Close" => {
            words.push(body.first().map_or(String::new(), |kind| (*kind as char).to_string()));
            words.extend(read_strings(&body[1..], 1).0);
        }
        "Authentication" | "FunctionCall" => words.push(word_of(body).to_string()),
        "Ready" => words.push(String::from_utf8_lossy(body).into_owned()),
        "RowDescription" => words.extend(message::read_columns(body).into_iter().map(|(name, _)| name)),
        "DataRow" => words.extend(read_list(body).into_iter().map(or_null)),
        "CopyData" => words.push(String::from_utf8_lossy(body).into_owned()),
        "Error" | "Notice" => {
            let complaint = Complaint::read(message);
            words.extend([complaint.severity, complaint.code, complaint.text]);
        }
        "Notification" => words.extend(read_strings(&body[4..], 2).0),
        "FunctionResult" => words.push(String::from_utf8_lossy(&body[4..]).into_owned()),
        "Negotiate" => {
            let version = word_of(body);
            words.push(format!("{}.{}", version >> 16, version & 0xffff));
            words.extend(read_strings(&body[8..], word_of(&body[4..]) as usize).0);
        }
        _ => {}
    }
    words
}

/// Returns whether a message is as expected: given fields must be equal, `*` stands for any value, and fields that are not
/// given at the end may have any value.
pub fn fits(expected: &[String], words: &[String]) -> bool {
    expected.len() <= words.len() && expected.iter().zip(words).all(|(want, word)| want == "*" || want == word)
}

/// Words as they are written in a script; long ones are truncated.
pub fn show(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.-=/".contains(c));
        match word.char_indices().nth(100) {
            Some((cut, _)) => format!("{:?}.. of {} bytes", &word[..cut], word.len()),
            None if plain => word.clone(),
            None => format!("{word:?}"),
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn encode_request(name: &str, fields: &[&str]) -> Result<Vec<u8>, String> {
    let field = |at: usize| fields.get(at).copied().unwrap_or("");
    Ok(match name {
        "Query" => message::query(field(0)),
        "Parse" => message::parse(field(0), field(1)),
        "Bind" => message::bind(field(0), field(1), fields.get(2..).unwrap_or(&[])),
        "Execute" => message::execute(field(0), field(1).parse().unwrap_or(0)),
        "Describe" | "Close" => {
            let kind = letter(field(0))?;
            frame(tag(Sender::Client, name)?, &[vec![kind], strings(&[field(1)])].concat())
        }
        "FunctionCall" => {
            let number: u32 = field(0).parse().map_err(|_| "FunctionCall wants a number")?;
            let body = [number.to_be_bytes().to_vec(), vec![0, 0], list(&fields[1..]), vec![0, 0]].concat();
            frame(b'F', &body)
        }
        "CopyData" => frame(b'd', field(0).as_bytes()),
        "CopyFail" | "Password" => frame(tag(Sender::Client, name)?, &strings(&[field(0)])),
        _ => frame(tag(Sender::Client, name)?, &[]),
    })
}

fn encode_answer(name: &str, fields: &[&str]) -> Result<Vec<u8>, String> {
    let field = |at: usize| fields.get(at).copied().unwrap_or("");
    let body = match name {
        "Authentication" => field(0).parse::<u32>().map_err(|_| "a number is wanted")?.to_be_bytes().to_vec(),
        "ParameterStatus" => strings(&[field(0), field(1)]),
        "Ready" => field(0).as_bytes().to_vec(),
        "RowDescription" => {
            let columns = fields.iter().flat_map(|name| {
                [strings(&[name]), vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]].concat()
            });
            u16::try_from(fields.len()).unwrap_or(0).to_be_bytes().into_iter().chain(columns).collect()
        }
        "DataRow" => list(fields),
        "CommandComplete" => strings(&[field(0)]),
        "Error" | "Notice" => {
            let text = format!("S{}\0V{}\0C{}\0M{}\0\0", field(0), field(0), field(1), field(2));
            text.into_bytes()
        }
        "Notification" => [vec![0, 0, 0, 9], strings(&[field(0), field(1)])].concat(),
        "ParameterDescription" => vec![0, 0],
        "CopyIn" | "CopyOut" | "CopyBoth" => vec![0, 0, 1, 0, 0],
        "CopyData" => field(0).as_bytes().to_vec(),
        "FunctionResult" => {
            let length = u32::try_from(field(0).len()).unwrap_or(0);
            [length.to_be_bytes().to_vec(), field(0).as_bytes().to_vec()].concat()
        }
        _ => Vec::new(),
    };
    Ok(frame(tag(Sender::Server, name)?, &body))
}

fn names(sender: Sender) -> &'static [(&'static str, u8)] {
    match sender {
        Sender::Client => &REQUESTS,
        Sender::Server => &ANSWERS,
    }
}

fn tag(sender: Sender, name: &str) -> Result<u8, String> {
    let found = names(sender).iter().find(|(known, _)| *known == name);
    found.map(|(_, tag)| *tag).ok_or_else(|| format!("no message is called {name}"))
}

fn pairs<'a>(fields: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    fields.iter().filter_map(|field| field.split_once('=')).collect()
}

fn letter(field: &str) -> Result<u8, String> {
    field.bytes().next().ok_or_else(|| "a letter is wanted".to_string())
}

fn hex(fields: &[&str]) -> Result<Vec<u8>, String> {
    fields.iter().map(|field| u8::from_str_radix(field, 16).map_err(|_| format!("{field} is no byte"))).collect()
}

fn word_of(body: &[u8]) -> u32 {
    body.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn or_null(value: Option<String>) -> String {
    value.unwrap_or_else(|| "NULL".to_string())
}

/// Pseudo-random bytes of a linear congruential generator: the same for the same seed.
fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

const REQUESTS: [(&str, u8); 14] = [
    ("Query", b'Q'),
    ("Parse", b'P'),
    ("Bind", b'B'),
    ("Describe", b'D'),
    ("Execute", b'E'),
    ("Close", b'C'),
    ("Sync", b'S'),
    ("Flush", b'H'),
    ("FunctionCall", b'F'),
    ("CopyData", b'd'),
    ("CopyDone", b'c'),
    ("CopyFail", b'f'),
    ("Password", b'p'),
    ("Terminate", b'X'),
];

const ANSWERS: [(&str, u8); 24] = [
    ("Authentication", b'R'),
    ("ParameterStatus", b'S'),
    ("KeyData", b'K'),
    ("Ready", b'Z'),
    ("RowDescription", b'T'),
    ("DataRow", b'D'),
    ("CommandComplete", b'C'),
    ("Error", b'E'),
    ("Notice", b'N'),
    ("Notification", b'A'),
    ("ParseComplete", b'1'),
    ("BindComplete", b'2'),
    ("CloseComplete", b'3'),
    ("NoData", b'n'),
    ("ParameterDescription", b't'),
    ("EmptyQuery", b'I'),
    ("PortalSuspended", b's'),
    ("CopyIn", b'G'),
    ("CopyOut", b'H'),
    ("CopyBoth", b'W'),
    ("CopyData", b'd'),
    ("CopyDone", b'c'),
    ("FunctionResult", b'V'),
    ("Negotiate", b'v'),
];
