//! Bytes of messages, and the fields that the tests look at.
//!
//! Always true: messages built here are valid; those that are broken on purpose are written as bytes where they are used.
//! Not here: the notation of the scripts (`notation`).

use crate::peer::Frame;

/// A message with a type.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(packet(body));
    bytes
}

/// A packet without a type: its length and a body.
pub fn packet(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).expect("a message is below 2 GiB");
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// StartupMessage of protocol 3.`minor`.
pub fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (0x0003_0000 | u32::from(minor)).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(strings(&[name, value]));
    }
    body.push(0);
    packet(&body)
}

/// CancelRequest with the key of BackendKeyData.
pub fn cancel_request(pid: u32, secret: &[u8]) -> Vec<u8> {
    let mut body = CANCEL_CODE.to_be_bytes().to_vec();
    body.extend(pid.to_be_bytes());
    body.extend_from_slice(secret);
    packet(&body)
}

/// Query.
pub fn query(sql: &str) -> Vec<u8> {
    frame(b'Q', &strings(&[sql]))
}

/// Parse, with no parameter types.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    let mut body = strings(&[name, sql]);
    body.extend([0, 0]);
    frame(b'P', &body)
}

/// Bind, all in text.
pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let mut body = strings(&[portal, statement]);
    body.extend([0, 0]);
    body.extend(list(values));
    body.extend([0, 0]);
    frame(b'B', &body)
}

/// Describe, of a statement (`S`) or a portal (`P`).
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[&[kind], &strings(&[name])[..]].concat())
}

/// Execute; `rows` 0 means all.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    let mut body = strings(&[portal]);
    body.extend(rows.to_be_bytes());
    frame(b'E', &body)
}

/// Sync.
pub fn sync() -> Vec<u8> {
    frame(b'S', &[])
}

/// Terminate.
pub fn terminate() -> Vec<u8> {
    frame(b'X', &[])
}

/// Strings, each with its terminator.
pub fn strings(values: &[&str]) -> Vec<u8> {
    values.iter().flat_map(|value| [value.as_bytes(), &[0]]).collect::<Vec<_>>().concat()
}

/// A count (16 bits) and values with their lengths, as in DataRow and Bind.
pub fn list(values: &[&str]) -> Vec<u8> {
    let mut bytes = u16::try_from(values.len()).expect("few values").to_be_bytes().to_vec();
    for value in values {
        bytes.extend(u32::try_from(value.len()).expect("short value").to_be_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}

/// The strings at the start of a body, up to `count` of them, and where the rest begins.
pub fn read_strings(body: &[u8], count: usize) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    let mut start = 0;
    while found.len() < count {
        let Some(length) = body[start..].iter().position(|byte| *byte == 0) else { break };
        found.push(String::from_utf8_lossy(&body[start..start + length]).into_owned());
        start += length + 1;
    }
    (found, start)
}

/// The values of a DataRow (or of the list in a Bind); `None` for NULL.
pub fn read_list(body: &[u8]) -> Vec<Option<String>> {
    let mut rest = Bytes(body);
    let count = rest.short();
    (0..count)
        .map(|_| {
            let length = rest.long();
            usize::try_from(length as i32).ok().map(|length| String::from_utf8_lossy(rest.take(length)).into_owned())
        })
        .collect()
}

/// The names and type numbers of a RowDescription.
pub fn read_columns(body: &[u8]) -> Vec<(String, u32)> {
    let mut rest = Bytes(body);
    let count = rest.short();
    (0..count)
        .map(|_| {
            let (name, length) = read_strings(rest.0, 1);
            rest.take(length + 6);
            let kind = rest.long();
            rest.take(8);
            (name.into_iter().next().unwrap_or_default(), kind)
        })
        .collect()
}

/// An ErrorResponse or NoticeResponse.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Complaint {
    /// The field `S`.
    pub severity: String,
    /// The field `C`.
    pub code: String,
    /// The field `M`.
    pub text: String,
    /// The field `D`, or empty.
    pub detail: String,
    /// The field `H`, or empty.
    pub hint: String,
}

impl Complaint {
    /// Reads the fields.
    pub fn read(frame: &Frame) -> Self {
        let mut found = Self::default();
        for field in frame.body.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { continue };
            let text = String::from_utf8_lossy(text).into_owned();
            match kind {
                b'S' => found.severity = text,
                b'C' => found.code = text,
                b'M' => found.text = text,
                b'D' => found.detail = text,
                b'H' => found.hint = text,
                _ => {}
            }
        }
        found
    }
}

/// A body being read; missing bytes are read as zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn short(&mut self) -> u16 {
        self.take(2).try_into().map_or(0, u16::from_be_bytes)
    }

    fn long(&mut self) -> u32 {
        self.take(4).try_into().map_or(0, u32::from_be_bytes)
    }
}

/// The code in the place of the protocol version by which a packet is a CancelRequest.
pub const CANCEL_CODE: u32 = 80_877_102;
/// The code of an SSLRequest.
pub const SSL_CODE: u32 = 80_877_103;
/// The code of a GSSENCRequest.
pub const GSS_CODE: u32 = 80_877_104;
