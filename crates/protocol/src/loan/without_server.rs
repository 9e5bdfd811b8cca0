//! Messages of a client without a server that no server has to answer: Close, Flush and Sync.
//!
//! Always true: messages are answered in order, each once, as PostgreSQL answers them between two transactions; whatever
//! PostgreSQL would refuse, or a server has to know of, is left to a server.
//! Not here: whether the client has a server, and the sending of the answers (`worker::data::without_server`).
//!
//! A server that the client gets later has none of its portals, and its statements are closed by us (`prepared`).

use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::{backend, frontend, write};

use super::client_session::ClientSession;
use super::statements::may_be_by_sql;
use crate::prepared::{Ask, Head, cut, head};
use crate::request::messages;

/// What is to be done with the messages of a client without a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unaided {
    /// A server has to be asked for.
    Nothing,
    /// Nothing: more messages are needed, to which no answer is due until a Flush or a Sync has come.
    Wait,
    /// The messages need no server up to a position: the client is sent the answers to them.
    Answered {
        /// Where the messages end that need no server.
        end: usize,
        /// The answers to them.
        answers: Vec<u8>,
    },
}

impl ClientSession {
    /// Answers the messages at the beginning of these bytes that need no server, up to the last Flush or Sync among them, if
    /// it is certain what PostgreSQL answers. `follows_statements` tells whether statements follow the client; otherwise a
    /// server may have those that it closes. No message has begun before these bytes.
    pub fn answers_unaided(&mut self, bytes: &[u8], follows_statements: bool) -> Unaided {
        let (mut end, mut whole) = (0, messages(bytes));
        let mut behind = 0;
        let is_all_closes = loop {
            let Some((at, kind, body)) = whole.next() else {
                break bytes.get(behind).is_none_or(|kind| may_be_unaided(*kind));
            };
            behind = at + HEADER_BYTES + body.len();
            match kind {
                // It is said to us.
                frontend::TERMINATE => {
                    end = at;
                    break false;
                }
                frontend::FLUSH | frontend::SYNC if body.is_empty() => end = behind,
                frontend::CLOSE if self.may_close_unaided(body, follows_statements) => {}
                _ => break false,
            }
        };
        match (end, is_all_closes) {
            (0, true) => Unaided::Wait,
            (0, false) => Unaided::Nothing,
            _ => Unaided::Answered { end, answers: self.answer_unaided(&bytes[..end]) },
        }
    }

    fn answer_unaided(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        for (_, kind, body) in messages(bytes) {
            match kind {
                frontend::SYNC => write::ready_for_query(&mut answers, TxStatus::Idle),
                frontend::CLOSE => {
                    if let Some(name) = body.strip_prefix(b"S").and_then(|name| name.split_last()).map(|(_, name)| name)
                    {
                        self.close_statement(name);
                    }
                    write::bare(&mut answers, backend::CLOSE_COMPLETE);
                }
                _ => {}
            }
        }
        answers
    }

    /// Whether a Close with this body needs no server.
    fn may_close_unaided(&self, body: &[u8], follows_statements: bool) -> bool {
        let Some((target, name)) = body.split_first() else { return false };
        let is_name = name.is_ascii() && name.iter().position(|&byte| byte == 0) == Some(name.len() - 1);
        match (target, head(frontend::CLOSE, body, body.len())) {
            (b'P', _) => is_name,
            (b'S', Ok(Head::Plain)) => is_name && follows_statements,
            (b'S', Ok(Head::Named(Ask::Close { name }))) => {
                let effects = self.session_effects.as_ref();
                let is_any = effects.is_some_and(|effects| effects.may_have_prepared_any());
                is_name && follows_statements && !is_any && !may_be_by_sql(self, name)
            }
            _ => false,
        }
    }

    fn close_statement(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed.is_closed();
        }
        if let Some(names) = &mut self.names {
            names.close(cut(name));
        }
    }
}

/// Whether a message of this kind may need no server.
#[must_use]
pub fn may_be_unaided(kind: u8) -> bool {
    matches!(kind, frontend::CLOSE | frontend::FLUSH | frontend::SYNC)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use route::Dialect;

    use super::*;
    use crate::vars::{Tracked, Vars};

    fn session() -> ClientSession {
        ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))))
    }

    fn frames(frames: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        frames.iter().for_each(|(kind, body)| write::message(&mut out, *kind, |out| out.extend_from_slice(body)));
        out
    }

    /// The kinds of the answers, and how many bytes they answer.
    fn answered(bytes: &[u8]) -> Option<(String, usize)> {
        let Unaided::Answered { end, answers } = session().answers_unaided(bytes, true) else { return None };
        Some((messages(&answers).map(|(_, kind, _)| char::from(kind)).collect(), end))
    }

    const CLOSE: (u8, &[u8]) = (b'C', b"Sa\0");
    const PORTAL: (u8, &[u8]) = (b'C', b"P\0");
    const SYNC: (u8, &[u8]) = (b'S', b"");
    const FLUSH: (u8, &[u8]) = (b'H', b"");
    const PARSE: (u8, &[u8]) = (b'P', b"a\0select 1\0\0\0");

    #[test]
    fn what_closes_is_answered_up_to_the_last_flush_or_sync() {
        for (said, answers, count) in [
            (vec![CLOSE, PORTAL, SYNC], "33Z", 3),
            (vec![CLOSE, FLUSH, SYNC], "3Z", 3),
            (vec![SYNC, CLOSE, SYNC, PORTAL], "Z3Z", 3),
            (vec![CLOSE, SYNC, CLOSE, PARSE], "3Z", 2),
            (vec![CLOSE, (b'X', b"")], "3", 1),
        ] {
            let expected = Some((answers.to_owned(), frames(&said[..count]).len()));
            assert_eq!(answered(&frames(&said)), expected, "{said:?}");
        }
        let mut torn = frames(&[CLOSE, SYNC]);
        torn.pop();
        for (bytes, expected) in [
            (frames(&[CLOSE]), Unaided::Wait),
            (torn, Unaided::Wait),
            (frames(&[CLOSE, PARSE, SYNC]), Unaided::Nothing),
            (frames(&[PARSE, SYNC]), Unaided::Nothing),
        ] {
            assert_eq!(session().answers_unaided(&bytes, true), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_server_is_asked_what_it_refuses_or_has_to_know() {
        for wrong in [
            (b'C', &b"Sa"[..]),
            (b'C', b"Sa\0b\0"),
            (b'C', b""),
            (b'C', b"Xa\0"),
            (b'C', b"S\xff\0"),
            (b'H', b"x"),
            (b'S', b"x"),
        ] {
            assert_eq!(session().answers_unaided(&frames(&[wrong, SYNC]), true), Unaided::Nothing, "{wrong:?}");
        }
        for (follows, unnamed) in [
            (false, Unaided::Nothing),
            (true, Unaided::Answered { end: 12, answers: frames(&[(b'3', b""), (b'Z', b"I")]) }),
        ] {
            assert_eq!(session().answers_unaided(&frames(&[(b'C', b"S\0"), SYNC]), follows), unnamed);
        }
        let mut client = session();
        let class = Rc::new(route::classify(b"prepare a as select 1", Dialect::default(), None));
        client.session_effects.get_or_insert_default().executes(&class);
        assert_eq!(client.answers_unaided(&frames(&[CLOSE, SYNC]), true), Unaided::Nothing, "it may be of SQL");
        assert!(matches!(client.answers_unaided(&frames(&[PORTAL, SYNC]), true), Unaided::Answered { .. }));
    }
}
