//! The wanted answer to a request, message by message.
//!
//! Always true: a want matches one message, and an answer to another request or of another client does not match.
//! Not here: messages that may arrive at any time (notices, parameters, errors): `session`.

use std::fmt;

use tests::message::{self, Complaint};
use tests::peer::Frame;

/// One message that must arrive next.
#[derive(Clone)]
pub(crate) enum Want {
    /// A message of this type with any body.
    Any(u8),
    /// RowDescription with these column names.
    Columns(Vec<String>),
    /// DataRow.
    Row(Vec<String>),
    /// DataRow of one number within this range.
    Between(u64, u64),
    /// CommandComplete.
    Tag(String),
    /// CopyData.
    CopyLine(String),
    /// FunctionCallResponse.
    Function(String),
    /// NoticeResponse.
    Notice(String),
    /// NotificationResponse on this channel.
    Notification(String, String),
    /// ErrorResponse with this code and a text that contains these words.
    Error(&'static str, String),
}

impl Want {
    /// ParseComplete, BindComplete and the like.
    pub(crate) fn kinds(tags: &[u8]) -> Vec<Self> {
        tags.iter().map(|tag| Self::Any(*tag)).collect()
    }

    /// The answer to a query with one row of these columns.
    pub(crate) fn one_row(names: &[&str], values: &[&str]) -> Vec<Self> {
        vec![Self::columns(names), Self::row(values), Self::Tag("SELECT 1".to_string())]
    }

    pub(crate) fn columns(names: &[&str]) -> Self {
        Self::Columns(names.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn row(values: &[&str]) -> Self {
        Self::Row(values.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn tag(tag: &str) -> Self {
        Self::Tag(tag.to_string())
    }

    /// Returns whether the message is the wanted one.
    pub(crate) fn fits(&self, frame: &Frame) -> bool {
        let body = &frame.body;
        match self {
            Self::Any(tag) => frame.tag == *tag,
            Self::Columns(names) => {
                frame.tag == b'T' && message::read_columns(body).iter().map(|(name, _)| name).eq(names)
            }
            Self::Row(values) => {
                frame.tag == b'D' && message::read_list(body).iter().map(Option::as_ref).eq(values.iter().map(Some))
            }
            Self::Between(least, most) => {
                frame.tag == b'D' && number(body).is_some_and(|n| (*least..=*most).contains(&n))
            }
            Self::Tag(tag) => frame.tag == b'C' && body.strip_suffix(b"\0") == Some(tag.as_bytes()),
            Self::CopyLine(line) => frame.tag == b'd' && body.strip_suffix(b"\n") == Some(line.as_bytes()),
            Self::Function(value) => frame.tag == b'V' && body.get(4..) == Some(value.as_bytes()),
            Self::Notice(text) => frame.tag == b'N' && Complaint::read(frame).text == *text,
            Self::Notification(channel, payload) => {
                frame.tag == b'A' && body.get(4..) == Some(&message::strings(&[channel, payload])[..])
            }
            Self::Error(code, words) => {
                let complaint = || Complaint::read(frame);
                frame.tag == b'E' && complaint().code == *code && complaint().text.contains(words.as_str())
            }
        }
    }
}

impl fmt::Debug for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(tag) => write!(f, "{:?}", *tag as char),
            Self::Columns(names) => write!(f, "columns {names:?}"),
            Self::Row(values) => write!(f, "row {}", values.iter().map(|v| short(v)).collect::<Vec<_>>().join("|")),
            Self::Between(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::CopyLine(line) => write!(f, "copied line {}", short(line)),
            Self::Function(value) => write!(f, "result {}", short(value)),
            Self::Notice(text) => write!(f, "notice {text}"),
            Self::Notification(channel, payload) => write!(f, "notification {channel} {payload}"),
            Self::Error(code, words) => write!(f, "error {code} with {words:?}"),
        }
    }
}

/// A short form of a message for the transcript.
pub(crate) fn show(frame: &Frame) -> String {
    let text = String::from_utf8_lossy(&frame.body);
    let text: String = text.chars().map(|c| if c.is_control() { '.' } else { c }).collect();
    format!("{} {}", frame.tag as char, short(&text))
}

/// The beginning of a text.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_string(),
    }
}

fn number(body: &[u8]) -> Option<u64> {
    message::read_list(body).first()?.as_ref()?.parse().ok()
}

const SHOWN: usize = 140;
