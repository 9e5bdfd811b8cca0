//! A login to a server, and the parameters that the server reports.
//!
//! Input: the secret that we have for it, how its bytes are cut (two bytes), and its messages. A SASL message that is
//! only `@` stands for the one that an honest server would send.
//!
//! Always true: however the bytes are cut, the login is the same; a server whose proof we have asked for is not ready
//! before it has given that; we only send whole password messages; what is kept of the server is bounded.

use std::rc::Rc;
use std::sync::Arc;

use auth::scram::server::AwaitFinal;
use auth::scram::{MECHANISM, NONCE_BYTES};
use auth::{ScramSecret, ScramServer, Secret, ServerSecret};
use protocol::client::statuses::Statuses;
use protocol::server::login::{Arrival, Identity, LOGIN_MESSAGE_BYTES_MAX, LoginFault, ServerLogin, Step};
use protocol::vars::{Tracked, Vars};
use wire::{Scanner, frontend};

use super::scram::CHEAP;
use crate::Target;
use crate::draw::{Draw, cuts};
use crate::model::messages;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "server",
    run,
    words: &[
        b"R\0\0\0\x08\0\0\0\0",
        b"R\0\0\0\x08\0\0\0\x03",
        b"R\0\0\0\x0c\0\0\0\x05salt",
        b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
        b"R\0\0\0\x09\0\0\0\x0b@",
        b"R\0\0\0\x09\0\0\0\x0c@",
        b"S\0\0\0\x11TimeZone\0UTC\0",
        b"K\0\0\0\x0c12345678",
        b"Z\0\0\0\x05I",
        b"N\0\0\0\x05\0",
        b"E\0\0\0\x0eC28P01\0Mno\0\0",
        b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0",
    ],
    bytes_max: 500,
};

/// Logs in.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let secret = draw.pick(&["secret", "", SCRAM_SECRET, MD5_SECRET]);
    let seed = draw.number();
    let bytes = draw.rest();
    let whole = log_in(secret, &[bytes]);
    assert_eq!(log_in(secret, &bytes.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    assert_eq!(log_in(secret, &cuts(bytes, seed)), whole, "cut");
}

/// The result of a login.
#[derive(PartialEq, Eq, Debug, Default)]
struct Transcript {
    sent: Vec<u8>,
    fault: Option<LoginFault>,
    is_bad: bool,
    parameters: Option<Vec<(Box<str>, Box<str>)>>,
}

fn log_in(secret: &str, parts: &[&[u8]]) -> Transcript {
    let identity = Identity {
        user: "ann".into(),
        database: "shop".into(),
        secret: Arc::new(Secret::parse(secret)),
        keys: None,
        salted: None,
        iterations_max: CHEAP as u32,
        channel: None,
        parameters: vec![("application_name".into(), "till".into())],
    };
    let mut startup = Vec::new();
    let login = ServerLogin::begin(identity, [5; NONCE_BYTES], &mut startup);
    let mut talk = Talk { login, honest: Honest::new(), said_ok: false, was_asked: false, out: Transcript::default() };
    let (mut scanner, mut body) = (Scanner::default(), Vec::new());
    for part in parts {
        let mut at = 0;
        while at < part.len() {
            match scanner.next(part, at, LOGIN_MESSAGE_BYTES_MAX) {
                wire::Step::Piece(piece) => {
                    body.extend_from_slice(&part[piece.body.clone()]);
                    at = piece.range.end;
                    if piece.is_last() && talk.hear(piece.kind, &std::mem::take(&mut body)) {
                        return talk.out;
                    }
                }
                wire::Step::More => break,
                wire::Step::Bad { .. } => {
                    talk.out.is_bad = true;
                    return talk.out;
                }
            }
        }
    }
    talk.out
}

struct Talk {
    login: ServerLogin,
    honest: Honest,
    said_ok: bool,
    /// We have begun SASL, so the server owes its proof.
    was_asked: bool,
    out: Transcript,
}

impl Talk {
    /// Handles a message of the server. Returns whether the login is over.
    fn hear(&mut self, kind: u8, body: &[u8]) -> bool {
        let body = self.honest.instead(body);
        self.said_ok |= kind == b'R' && body.starts_with(&[0; 4]);
        match self.login.hear(kind, &body) {
            Ok(Step::Wait) => false,
            Ok(Step::Send(bytes)) => {
                self.sends(&bytes);
                false
            }
            Ok(Step::Derive(derivation)) => {
                let answer = self.login.salted(derivation.run().into()).expect("it is waited for");
                self.sends(&answer);
                false
            }
            Ok(Step::Ready(arrival)) => {
                assert!(self.said_ok, "ready without AuthenticationOk");
                assert!(!self.was_asked || self.honest.has_proved, "ready without the server's proof");
                assert_eq!((kind, &*body), (b'Z', &b"I"[..]));
                self.arrives(arrival);
                true
            }
            Err(fault) => {
                self.out.fault = Some(fault);
                true
            }
        }
    }

    fn sends(&mut self, bytes: &[u8]) {
        let sent = messages(bytes);
        let [(frontend::PASSWORD, body)] = sent[..] else { panic!("one password message, not {sent:?}") };
        // The mechanism is followed by a zero byte and a length of four bytes; a password in plain text may begin with
        // the name as well.
        if let Some([0, _, _, _, _, first @ ..]) = body.strip_prefix(MECHANISM.as_bytes()) {
            self.was_asked = true;
            self.honest.client_first(first);
        } else if body.starts_with(b"c=") {
            self.honest.client_final(body);
        } else {
            assert!(body.ends_with(b"\0"), "a password without its end");
        }
        self.out.sent.extend_from_slice(bytes);
    }

    fn arrives(&mut self, arrival: Arrival) {
        assert!(arrival.parameters.len() <= 200, "parameters without a bound");
        assert!(arrival.key.is_empty() || (8..=260).contains(&arrival.key.len()));
        let tracked = Tracked::new(["IntervalStyle"]);
        let mut vars = Vars::new(&tracked);
        for (name, value) in &arrival.parameters {
            if let Some(place) = tracked.place(name) {
                vars.set(place, value);
            }
        }
        let mut out = Vec::new();
        Statuses::new(Rc::new(vars.clone()), &tracked).write_for(&vars, &tracked, &mut out);
        assert!(messages(&out).len() <= tracked.names().count());
        self.out.parameters = Some(arrival.parameters);
    }
}

/// A server that knows the secret.
struct Honest {
    server: Option<ScramServer>,
    awaits: Option<AwaitFinal>,
    says: Vec<u8>,
    has_proved: bool,
}

impl Honest {
    fn new() -> Self {
        let stored = ScramSecret::derive("secret", &[9; 16], 2);
        let server = Some(ScramServer::new(ServerSecret::Stored(stored.into()), &[8; NONCE_BYTES]));
        Self { server, awaits: None, says: Vec::new(), has_proved: false }
    }

    fn client_first(&mut self, first: &[u8]) {
        if let Some(server) = self.server.take() {
            let (next, says) = server.first(first).expect("our own message");
            (self.awaits, self.says) = (Some(next), says);
        }
    }

    fn client_final(&mut self, last: &[u8]) {
        self.says.clear();
        if let Some(Ok((says, _))) = self.awaits.take().map(|server| server.last(last)) {
            self.says = says;
        }
    }

    /// Returns the body of a message, or what an honest server would send in its place.
    fn instead(&mut self, body: &[u8]) -> Vec<u8> {
        match body {
            [0, 0, 0, code @ (11 | 12), b'@'] => {
                self.has_proved |= *code == 12 && self.says.starts_with(b"v=");
                [&body[..4], &self.says].concat()
            }
            _ => body.to_vec(),
        }
    }
}

/// `secret`, as PostgreSQL stores it; without the keys of a client it opens nothing.
const SCRAM_SECRET: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
const MD5_SECRET: &str = "md50123456789abcdef0123456789abcdef";
