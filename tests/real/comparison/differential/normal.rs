//! What may differ between PostgreSQL and the pooler, and nothing else may. This list is all of it:
//!
//! 1. The login: BackendKeyData is the pooler's own, and ParameterStatus may come in any order. The values are compared.
//! 2. NotificationResponse: the process number of who notified.
//! 3. Errors about a prepared statement name it as the server knows it.
//! 4. In an aborted transaction a statement that may not be there is refused as one of three: the transaction is aborted (25P02),
//!    there is no such statement (26000), or the values do not fit it. The pooler sends a Parse before a Bind of what it is not sure of.
//! 5. A parameter that is told once more though it is what it was, by PostgreSQL before 14 (left out in `play`).
//! 6. When what comes: only the order counts. A client that waits is given as many messages as PostgreSQL sent it.
//!
//! Always true: two messages that are equal here are equal byte by byte but for the above. Numbers of tables need no
//! exception: all databases are copies of one template.
//! Not here: what may not be asked at all (`rules`).

use tests::peer::Frame;

use super::play::Transcript;

/// The first thing that two transcripts do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parting {
    /// The parameters that the login told.
    Welcome,
    /// The message with this number.
    At(usize),
    /// The way the connection ended.
    End,
    /// What is in its tables afterwards.
    Left,
}

/// Where two transcripts part, if they do.
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

/// A message with what may differ made equal.
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

/// Makes one refusal of three: the transaction is aborted, there is no such statement, the values do not fit it.
fn join_refusals(body: &mut Vec<u8>) {
    let is_refusal =
        |field: &[u8]| matches!(field, b"C25P02" | b"C26000") || field.starts_with(b"Mbind message supplies");
    if body.split(|&byte| byte == 0).any(is_refusal) {
        *body = b"refused".to_vec();
    }
}

/// Takes the name out of `prepared statement "name"`.
fn blank_statement(body: &mut Vec<u8>) {
    const BEFORE: &[u8] = b"prepared statement \"";
    let Some(at) = body.windows(BEFORE.len()).position(|part| part == BEFORE) else { return };
    let start = at + BEFORE.len();
    let length = body[start..].iter().position(|&byte| byte == b'"').unwrap_or(0);
    body.drain(start..start + length);
}
