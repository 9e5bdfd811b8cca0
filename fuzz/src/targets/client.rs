//! A whole conversation with a client: its startup packet, its login, its queries, its end.
//!
//! Input: the authentication method, what is known of the user, how the bytes are cut (two bytes), and the bytes. What
//! a query does to the server follows from the sum of its bytes.
//!
//! Always true: however the bytes are cut, the conversation is the same; only a client that knows the secret gets in;
//! all that we send is whole messages; messages to the server are counted correctly (see `model/pair.rs`), and the
//! server is clean when the client has left.

use std::rc::Rc;
use std::sync::Arc;

use auth::scram::NONCE_BYTES;
use auth::{ScramSecret, Secret, ServerSecret, md5};
use protocol::client::greeting::{self, Opening, Request, StartupRules};
use protocol::client::login::{Dice, Known, Login, Method, PASSWORD_MESSAGE_BYTES_MAX, Step};
use protocol::client::statuses::Statuses;
use protocol::fault::Fault;
use protocol::vars::Tracked;
use wire::{MESSAGE_BYTES_MAX, Scanner, frontend};

use super::startup::tells;
use crate::Target;
use crate::draw::{Draw, cuts};
use crate::model::messages;
use crate::model::pair::{Manner, Pair};
use crate::model::postgres::{self, Asks, Does};

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "client",
    run,
    words: &[
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\0\0\0\x13\0\x03\0\0user\0ann\0\0",
        b"p\0\0\0\x0bsecret\0",
        b"p\0\0\0\x05\0",
        b"SCRAM-SHA-256\0",
        b"n,,n=,r=",
        b"c=biws,r=",
        b"Q\0\0\0\x0dselect 1\0",
        b"Q\0\0\0\x0abegin\0",
        b"P\0\0\0\x08\0a\0\0",
        b"B\0\0\0\x0c\0\0\0\0\0\0\0\0",
        b"D\0\0\0\x06P\0",
        b"E\0\0\0\x09\0\0\0\0\0",
        b"S\0\0\0\x04",
        b"H\0\0\0\x04",
        b"d\0\0\0\x05a",
        b"c\0\0\0\x04",
        b"f\0\0\0\x05\0",
        b"F\0\0\0\x08abcd",
        b"X\0\0\0\x04",
    ],
    bytes_max: 700,
};

/// Runs the conversation.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let method = draw.pick(&[Method::Trust, Method::Plain, Method::Md5, Method::Scram, Method::Elsewhere]);
    let secret = draw.pick(&[Stored::Plain, Stored::Scram, Stored::Md5, Stored::Empty, Stored::Unknown]);
    let seed = draw.number();
    let bytes = draw.rest();
    let house = House::new(method, secret);
    let whole = house.converse(&[bytes]);
    assert_eq!(house.converse(&bytes.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    assert_eq!(house.converse(&cuts(bytes, seed)), whole, "cut");
    drop(messages(&whole.said));
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stored {
    Plain,
    Scram,
    Md5,
    Empty,
    Unknown,
}

/// What is the same however the bytes are cut.
struct House {
    method: Method,
    known: Known,
    tracked: Tracked,
    ignored: [Box<str>; 1],
}

/// What was sent in a conversation, and how it ended.
#[derive(PartialEq, Eq, Debug, Default)]
struct Transcript {
    said: Vec<u8>,
    /// Types of messages for the server.
    asked: Vec<u8>,
    end: Option<End>,
}

#[derive(PartialEq, Eq, Debug)]
enum End {
    Told(Fault),
    Cancel(Box<[u8]>),
    Tls,
    Left,
    Torn,
}

enum Stage {
    Greeting(Vec<u8>),
    Login(Box<Login>, Scanner, Vec<u8>),
    Ready(Box<Session>),
}

/// A client that is logged in.
struct Session {
    scanner: Scanner,
    pair: Pair,
    /// The sum of the bytes of the message so far.
    sum: usize,
}

impl House {
    fn new(method: Method, stored: Stored) -> Self {
        let derived = || ScramSecret::derive(PASSWORD, &[9; 16], 2);
        let secret = match stored {
            Stored::Plain => Some(Secret::parse(PASSWORD)),
            Stored::Scram => Some(Secret::Scram(derived().into())),
            Stored::Md5 => Some(Secret::Md5(md5::stored(USER, PASSWORD))),
            Stored::Empty => Some(Secret::None),
            Stored::Unknown => None,
        };
        let scram = match &secret {
            Some(Secret::Scram(secret)) => ServerSecret::Stored(secret.clone()),
            Some(Secret::Plain(_)) => ServerSecret::Derived(derived().into()),
            _ => ServerSecret::mock(USER, &[0; 32], 2),
        };
        let known =
            Known { user: USER.into(), secret: secret.map(Arc::new), scram: Some(scram), like: None, channel: None };
        let tracked = Tracked::new(["IntervalStyle"]);
        Self { method, known, tracked, ignored: ["extra_float_digits".into()] }
    }

    fn converse(&self, parts: &[&[u8]]) -> Transcript {
        let mut transcript = Transcript::default();
        let mut stage = Stage::Greeting(Vec::new());
        for part in parts {
            stage = match self.hear(stage, part, &mut transcript) {
                Ok(stage) => stage,
                Err(end) => {
                    if let End::Told(fault) = &end {
                        tells(fault);
                        fault.write(&mut transcript.said);
                    }
                    transcript.end = Some(end);
                    return transcript;
                }
            };
        }
        if let Stage::Ready(mut session) = stage {
            let is_torn = session.scanner.is_in_body();
            session.leaves(is_torn);
            transcript.end = is_torn.then_some(End::Torn);
        }
        transcript
    }

    fn hear(&self, stage: Stage, bytes: &[u8], transcript: &mut Transcript) -> Result<Stage, End> {
        match stage {
            Stage::Greeting(mut said) => {
                said.extend_from_slice(bytes);
                self.greet(said, transcript)
            }
            Stage::Login(login, scanner, body) => self.log_in(login, scanner, body, bytes, transcript),
            Stage::Ready(mut session) => {
                session.hear(bytes, transcript)?;
                Ok(Stage::Ready(session))
            }
        }
    }

    fn greet(&self, mut said: Vec<u8>, transcript: &mut Transcript) -> Result<Stage, End> {
        loop {
            match greeting::open(&said) {
                Opening::More => return Ok(Stage::Greeting(said)),
                Opening::DirectTls => return Err(End::Tls),
                Opening::Encryption { bytes, .. } => {
                    // A client that does not wait for the answer is refused by `worker`; here it may go on.
                    said.drain(..bytes);
                    transcript.said.extend_from_slice(&message_of_one_byte());
                }
                Opening::Cancel { key } => return Err(End::Cancel(key)),
                Opening::Farewell => return Err(End::Left),
                // Which wrong bytes were read first depends on how they were cut.
                Opening::Bad(Fault::BadHeader { .. }) => return Err(End::Told(Fault::BadHeader { header: [0; 5] })),
                Opening::Bad(fault) => return Err(End::Told(fault)),
                Opening::Session { bytes, minor, parameters } => {
                    let rules = StartupRules { tracked: &self.tracked, ignored: &self.ignored };
                    let request = Request::read(minor, parameters, &rules).map_err(End::Told)?;
                    request.negotiate(&mut transcript.said);
                    let early = said.split_off(bytes);
                    let begun = self.begin(&request, transcript)?;
                    return self.hear(begun, &early, transcript);
                }
            }
        }
    }

    fn begin(&self, request: &Request, transcript: &mut Transcript) -> Result<Stage, End> {
        let dice = Dice { salt: *b"salt", nonce: [7; NONCE_BYTES] };
        let known = Known { user: request.user.clone(), ..self.known.clone() };
        match Login::begin(self.method, known, dice, &mut transcript.said).map_err(End::Told)? {
            Step::Passed(_) => {
                assert!(self.method == Method::Trust && self.known.secret.is_some(), "nothing was proved");
                Ok(self.welcome(transcript))
            }
            Step::Ask(login) => Ok(Stage::Login(Box::new(login), Scanner::default(), Vec::new())),
            Step::ExternalAuth(_) | Step::Derive(..) => panic!("nothing was asked for that could be judged"),
        }
    }

    fn log_in(
        &self,
        mut login: Box<Login>,
        mut scanner: Scanner,
        mut body: Vec<u8>,
        bytes: &[u8],
        transcript: &mut Transcript,
    ) -> Result<Stage, End> {
        let mut at = 0;
        while at < bytes.len() {
            let piece = match scanner.next(bytes, at, PASSWORD_MESSAGE_BYTES_MAX) {
                wire::Step::Piece(piece) => piece,
                wire::Step::More => break,
                wire::Step::Bad { .. } => return Err(End::Told(Fault::BadHeader { header: *scanner.header() })),
            };
            match piece.kind {
                frontend::PASSWORD => {}
                frontend::TERMINATE => return Err(End::Left),
                _ => return Err(End::Told(Fault::UnknownMessage)),
            }
            body.extend_from_slice(&bytes[piece.body.clone()]);
            assert!(body.len() < PASSWORD_MESSAGE_BYTES_MAX as usize, "a password without a bound");
            at = piece.range.end;
            if !piece.is_last() {
                continue;
            }
            let asked = stage(&login);
            match login.answer(&body, &mut transcript.said) {
                Ok(Step::Passed(_)) => {
                    self.is_proved(asked, &body);
                    let ready = self.welcome(transcript);
                    return self.hear(ready, &bytes[at..], transcript);
                }
                Ok(Step::ExternalAuth(password)) => {
                    assert_eq!(asked, "AwaitJudged");
                    if password.as_bytes() != PASSWORD.as_bytes() {
                        return Err(End::Told(Fault::PamWrong));
                    }
                    let ready = self.welcome(transcript);
                    return self.hear(ready, &bytes[at..], transcript);
                }
                Ok(Step::Derive(unproved, derivation)) => {
                    assert_eq!(asked, "AwaitPassword");
                    unproved.prove(&derivation.run()).map_err(End::Told)?;
                    self.is_proved(asked, &body);
                    let ready = self.welcome(transcript);
                    return self.hear(ready, &bytes[at..], transcript);
                }
                Ok(Step::Ask(next)) => (login, body) = (Box::new(next), Vec::new()),
                Err((fault, _)) => return Err(End::Told(fault)),
            }
        }
        Ok(Stage::Login(login, scanner, body))
    }

    /// Checks that this answer is correct, for the methods whose correct answer is known beforehand.
    fn is_proved(&self, asked: &str, body: &[u8]) {
        let secret = self.known.secret.as_deref().expect("an unknown user is let in");
        assert!(*secret != Secret::None, "a user without a secret is let in");
        match asked {
            "AwaitPassword" => assert_eq!(body, [PASSWORD.as_bytes(), b"\0"].concat()),
            // The hash depends on the user name that the client gave.
            "AwaitMd5" => assert_eq!(body.len(), 36),
            "AwaitSaslFinal" => assert!(!matches!(secret, Secret::Md5(_)), "a mock is a secret"),
            other => panic!("let in after {other}"),
        }
    }

    fn welcome(&self, transcript: &mut Transcript) -> Stage {
        let vars = Rc::new(protocol::vars::Vars::new(&self.tracked));
        let statuses = Statuses::new(vars.clone(), &self.tracked);
        let mut fixed = Vec::new();
        wire::write::authentication(&mut fixed, 0, &[]);
        transcript.said.extend(greeting::welcome(&fixed, &statuses, &vars, &self.tracked, b"12345678", None));
        let pair = Pair::new(Manner::Prompt, Some(Does::Nothing));
        Stage::Ready(Box::new(Session { scanner: Scanner::default(), pair, sum: 0 }))
    }
}

/// What a login waits for.
fn stage(login: &Login) -> &'static str {
    match login {
        Login::AwaitPassword(_) => "AwaitPassword",
        Login::AwaitJudged => "AwaitJudged",
        Login::AwaitMd5(..) => "AwaitMd5",
        Login::AwaitSaslFirst(..) => "AwaitSaslFirst",
        Login::AwaitSaslFinal(..) => "AwaitSaslFinal",
    }
}

impl Session {
    fn hear(&mut self, bytes: &[u8], transcript: &mut Transcript) -> Result<(), End> {
        let mut at = 0;
        while at < bytes.len() {
            let piece = match self.scanner.next(bytes, at, MESSAGE_BYTES_MAX) {
                wire::Step::Piece(piece) => piece,
                wire::Step::More => return Ok(()),
                wire::Step::Bad { .. } => {
                    self.leaves(false);
                    return Err(End::Told(Fault::BadHeader { header: *self.scanner.header() }));
                }
            };
            at = piece.range.end;
            if piece.kind == frontend::TERMINATE {
                self.leaves(false);
                return Err(End::Left);
            }
            self.sum += bytes[piece.body.clone()].iter().map(|&byte| usize::from(byte)).sum::<usize>();
            if piece.is_last() {
                let does = postgres::ALL[std::mem::take(&mut self.sum) % postgres::ALL.len()];
                transcript.asked.push(piece.kind);
                if !self.pair.client_says(Asks { kind: piece.kind, does }) {
                    self.leaves(false);
                    return Err(End::Told(Fault::UnknownMessage));
                }
                self.pair.settle();
            }
        }
        Ok(())
    }

    fn leaves(&mut self, is_torn: bool) {
        self.pair.client_leaves(is_torn);
        self.pair.settle();
    }
}

/// The answer to a request for encryption is a single byte; here it is framed, so that the output can be split into
/// messages.
fn message_of_one_byte() -> Vec<u8> {
    let mut out = Vec::new();
    wire::write::bare(&mut out, b'N');
    out
}

const USER: &str = "ann";
const PASSWORD: &str = "secret";
