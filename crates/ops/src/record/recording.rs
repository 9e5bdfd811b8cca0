//! A recording: the sessions of a database, their requests and when they came.
//!
//! Always true: a recording that was written is read again as the same; one of another schema is refused with words.
//! Not here: how it comes about (`recorder`), how it is played (`replay`).

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// What was recorded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// What this file is, for a person who opens it.
    pub(crate) kind: String,
    /// Where the pooler was.
    pub(crate) pooler: String,
    pub(crate) database: String,
    /// When the recording began, as RFC 3339 writes it.
    pub(crate) began: String,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    pub(crate) values: Values,
    /// Lines of the trace that the pooler dropped, because more happened than it can tell.
    pub(crate) dropped: u64,
    /// Requests that are not kept: their text was cut off, mentions a password or could not be read, or they have none.
    pub(crate) left_out: u64,
    pub(crate) statements: Vec<Statement>,
    pub(crate) sessions: Vec<RecordedSession>,
}

/// What is kept of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Values {
    /// Nothing: the pooler has not told them.
    None,
    /// How they are spread.
    Spread,
    /// Themselves.
    Literals,
}

/// A statement without its values.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Statement {
    /// The text in parts; a value stands between two of them.
    pub(crate) parts: Vec<String>,
    /// How often it was requested.
    pub(crate) calls: u64,
    /// How the values of each place are spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spreads: Vec<Spread>,
}

/// A client, from its login or the begin of the recording to its end.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecordedSession {
    /// When it logged in, in seconds; absent if it was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) came: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// When it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<f64>,
    pub(crate) requests: Vec<RecordedRequest>,
}

/// A request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecordedRequest {
    /// When the server got it, in seconds.
    pub(crate) at: f64,
    /// The number of its statement.
    pub(crate) statement: usize,
    /// How long the answer took, in seconds; absent if it was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) took: Option<f64>,
    /// Rows returned or changed.
    #[serde(default)]
    pub(crate) rows: u64,
    /// The SQLSTATE of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Its values, as SQL writes them, if literals are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<String>,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// It is none, or of another schema, or a number in it leads nowhere.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let recording: Self = serde_json::from_str(text)
            .map_err(|error| format!("no recording: {}", conninfo::clean(&error.to_string())))?;
        if recording.schema != SCHEMA {
            return Err(format!("a recording of schema {}, and only schema {SCHEMA} is known", recording.schema));
        }
        let count = recording.statements.len();
        let requests = || recording.sessions.iter().flat_map(|session| &session.requests);
        if let Some(request) = requests().find(|request| request.statement >= count) {
            return Err(format!("a request names statement {}, and there are {count}", request.statement));
        }
        if recording.statements.iter().any(|statement| statement.parts.is_empty()) {
            return Err("a statement without a text".to_owned());
        }
        let is_time = |time: f64| time.is_finite() && (0.0..TIME_MAX).contains(&time);
        if let Some(request) = requests().find(|request| !is_time(request.at)) {
            return Err(format!("a request at {} s", request.at));
        }
        Ok(recording)
    }

    /// The recording as text.
    ///
    /// # Errors
    /// None in practice: numbers that are not finite cannot be written.
    pub(crate) fn text(&self) -> Result<String, String> {
        serde_json::to_string(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    /// How many requests it has.
    pub(crate) fn requests(&self) -> usize {
        self.sessions.iter().map(|session| session.requests.len()).sum()
    }
}

/// The only schema so far.
pub(crate) const SCHEMA: u32 = 1;
/// A recording is no longer than a trace, which takes an hour at most; a week is certainly a mistake.
const TIME_MAX: f64 = 604_800.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        Recording {
            schema: SCHEMA,
            kind: "trunkline recording".into(),
            pooler: "localhost:6432".into(),
            database: "shop".into(),
            began: "2026-01-01T00:00:00Z".into(),
            seconds: 1.5,
            values: Values::None,
            dropped: 0,
            left_out: 0,
            statements: vec![Statement { parts: vec!["select ".into(), String::new()], calls: 1, spreads: Vec::new() }],
            sessions: vec![RecordedSession {
                requests: vec![RecordedRequest { at: 0.5, took: Some(0.25), ..RecordedRequest::default() }],
                ..RecordedSession::default()
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = recording().text().expect("text");
        assert_eq!(Recording::read(&written), Ok(recording()));
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_words() {
        let changed = |change: &dyn Fn(&mut Recording)| {
            let mut recording = recording();
            change(&mut recording);
            Recording::read(&recording.text().expect("text")).expect_err("it is wrong")
        };
        assert!(changed(&|it| it.schema = 2).contains("schema 2"));
        assert!(changed(&|it| it.sessions[0].requests[0].statement = 1).contains("statement 1, and there are 1"));
        assert!(changed(&|it| it.sessions[0].requests[0].at = -1.0).contains("-1 s"));
        assert!(changed(&|it| it.statements[0].parts.clear()).contains("without a text"));
        assert!(Recording::read("{}").expect_err("it is wrong").starts_with("no recording: missing field"));
    }
}
