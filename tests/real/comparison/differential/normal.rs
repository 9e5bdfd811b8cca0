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
