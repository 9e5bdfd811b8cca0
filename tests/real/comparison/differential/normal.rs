//! The complete list of what may differ between PostgreSQL and the pooler:
//!
//! 1. The login: BackendKeyData is the pooler's own, and ParameterStatus may come in any order. The values are compared.
//! 2. NotificationResponse: the process ID of the notifying backend.
//! 3. Errors about a prepared statement contain the name that it has on the server.
//! 4. In an aborted transaction a statement that may not exist is refused in one of three ways: the transaction is aborted (25P02),
//!    there is no such statement (26000), or the values do not fit it. The pooler sends a Parse before the Bind of a statement
//!    that it is not sure the server has. That there is no unnamed statement is always said the same.
//! 5. A ParameterStatus that PostgreSQL before 14 repeats although the value has not changed (left out in `play`).
//! 6. The timing: only the order counts. A waiting client reads as many messages as PostgreSQL sent it.
//! 7. In an aborted transaction, a Bind or Describe behind a Query or an Execute that is unanswered may be refused (25P02)
//!    where PostgreSQL answers it: decision 0007, "What it does not do". What follows depends on that and is not compared; how often
//!    it happens is counted and printed (`is_listed`).
//!
//! Always true: two messages that are equal here are equal byte by byte but for the above. OIDs of tables need no exception:
//! all databases are copies of one template.
//! Not here: what may not be sent at all (`rules`).

use tests::peer::Frame;

use super::play::Transcript;

/// The first difference between two transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parting {
    /// The parameters of the login.
    Welcome,
    /// The message with this number.
    At(usize),
    /// The way the connection ended.
    End,
    /// The contents of the program's tables afterwards.
    Left,
}

/// Where two transcripts differ first, if they do.
pub(super) fn parting(direct: &Transcript, pooled: &Transcript) -> Option<Parting> {
    if direct.welcome != pooled.welcome {
        return Some(Parting::Welcome);
    }
    let longest = direct.frames.len().max(pooled.frames.len());
    let normal = |transcript: &Transcript, at: usize| transcript.frames.get(at).map(normal);
    match (0..longest).find(|at| normal(direct, *at) != normal(pooled, *at)) {
        Some(at) => Some(Parting::At(at)),
        None if direct.end != pooled.end => Some(Parting::End),
        None => (direct.left != pooled.left).then_some(Parting::Left),
    }
}

/// Whether two transcripts part at this message in the way of rule 7: what PostgreSQL answers in an aborted transaction, to a Bind or
/// Describe, is refused by the pooler because the transaction is aborted.
pub(super) fn is_listed(direct: &Transcript, pooled: &Transcript, parting: &Parting) -> bool {
    let Parting::At(at) = parting else { return false };
    let (Some(answered), Some(refused)) = (direct.frames.get(*at), pooled.frames.get(*at)) else { return false };
    let is_refused = refused.tag == b'E' && refused.body.split(|&byte| byte == 0).any(|field| field == b"C25P02");
    // BindComplete, ParameterDescription, NoData.
    is_refused && matches!(answered.tag, b'2' | b't' | b'n') && is_aborted(&direct.frames[..*at])
}

/// Whether the transaction is aborted after these messages.
fn is_aborted(frames: &[Frame]) -> bool {
    let last = frames.iter().rev().find(|frame| matches!(frame.tag, b'Z' | b'E'));
    last.is_some_and(|frame| frame.tag == b'E' || frame.body == [b'E'])
}

/// A message with the permitted differences removed.
fn normal(frame: &Frame) -> Frame {
    let mut frame = frame.clone();
    if let (b'A', Some(pid)) = (frame.tag, frame.body.first_chunk_mut::<4>()) {
        *pid = [0; 4];
    }
    if frame.tag == b'E' {
        blank_statement(&mut frame.body);
        join_refusals(&mut frame.body);
    }
    frame
}

/// Makes one refusal of three: the transaction is aborted, there is no such statement, or the values do not fit it.
fn join_refusals(body: &mut Vec<u8>) {
    let is_refusal =
        |field: &[u8]| matches!(field, b"C25P02" | b"C26000") || field.starts_with(b"Mbind message supplies");
    let fields = || body.split(|&byte| byte == 0);
    if fields().any(is_refusal) && !fields().any(|field| field.starts_with(b"Munnamed prepared statement")) {
        *body = b"refused".to_vec();
    }
}

/// Removes the name from `prepared statement "name"`.
fn blank_statement(body: &mut Vec<u8>) {
    const BEFORE: &[u8] = b"prepared statement \"";
    let Some(at) = body.windows(BEFORE.len()).position(|part| part == BEFORE) else { return };
    let start = at + BEFORE.len();
    let length = body[start..].iter().position(|&byte| byte == b'"').unwrap_or(0);
    body.drain(start..start + length);
}
