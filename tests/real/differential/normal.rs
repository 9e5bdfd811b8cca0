//! What may differ between PostgreSQL and the pooler, and nothing else may. This list is all of it:
//!
//! 1. The login: BackendKeyData is the pooler's own, and ParameterStatus may come in any order. The values are compared.
//! 2. NotificationResponse: the process number of who notified.
//! 3. Errors about a prepared statement name it as the server knows it.
//! 4. When what comes: only the order counts. A client that waits is given as many messages as PostgreSQL sent it.
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
    }
    frame
}

/// Takes the name out of `prepared statement "name"`.
fn blank_statement(body: &mut Vec<u8>) {
    const BEFORE: &[u8] = b"prepared statement \"";
    let Some(at) = body.windows(BEFORE.len()).position(|part| part == BEFORE) else { return };
    let start = at + BEFORE.len();
    let length = body[start..].iter().position(|&byte| byte == b'"').unwrap_or(0);
    body.drain(start..start + length);
}
