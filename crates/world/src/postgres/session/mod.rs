//! A session of the simulated PostgreSQL, from its startup packet to its end.
//!
//! Always true: it answers in the order of the requests, as PostgreSQL's main loop does; the state of the session is
//! compared with what each request says its client believes.
//! Not here: who may connect (`postgres`), the language (`sql`).

mod along;
mod body;
mod channels;
mod copy;
mod login;
mod named;
mod prepared;
mod run;
mod secrets;
mod state;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use auth::{ScramSecret, Secret, ServerSecret};
use protocol::client::login::{Dice as LoginDice, Known, Login, Method};
use wire::backend::TxStatus;
use wire::{backend, frontend, write};

use crate::checks::witness::{Charge, Witness};
use crate::postgres::manner::Manner;
use crate::postgres::sql::{Nonce, Statement, Verb};
use crate::sim::dice::Dice;
use crate::sim::fake_tls::CHANNEL;

use body::{first_value, nonce_of, string};
pub(crate) use named::OUTDATED;
pub(crate) use state::{Life, Session, Wish};
use state::{Portal, Work};

impl Session {
    /// Returns the startup packet, once it is complete.
    pub(crate) fn startup_packet(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.input.extend_from_slice(bytes);
        let length = wire::startup::packet_bytes(&self.input).ok()??;
        if self.input.len() < length {
            return None;
        }
        Some(self.input.drain(..length).collect())
    }

    /// Begins the login.
    pub(crate) fn begin(
        &mut self,
        parameters: &[(&str, &str)],
        secret: Option<Arc<Secret>>,
        is_encrypted: bool,
        manner: &Manner,
        dice: &mut Dice,
    ) -> Wish {
        for &(name, value) in parameters {
            match name {
                "user" => self.user = value.to_owned(),
                "database" => self.database = value.to_owned(),
                "application_name" => self.vars.application_name = value.to_owned(),
                "timezone" | "TimeZone" => self.vars.zone = value.to_owned(),
                "replication" => self.is_physical = value != "database",
                "options" => self.alone = value.strip_prefix("owner=").and_then(|owner| owner.parse().ok()),
                _ => {}
            }
        }
        self.started.clone_from(&self.vars);
        self.reported.clone_from(&self.vars);
        self.is_session_mode = self.database.starts_with("session");
        let Some(method) = manner.method else { return self.welcome() };
        let scram = match secret.as_deref() {
            Some(Secret::Scram(stored)) => ServerSecret::Stored(stored.clone()),
            Some(Secret::Plain(password)) if method == Method::Scram => {
                ServerSecret::Derived(Arc::new(ScramSecret::derive(password.as_bytes(), &[7; 16], 8)))
            }
            _ => ServerSecret::mock(&self.user, &[0; 32], 8),
        };
        let known = Known {
            user: (*self.user).into(),
            like: secret.clone(),
            secret,
            scram: Some(scram),
            channel: is_encrypted.then(|| CHANNEL.into()),
        };
        let mut luck = LoginDice { salt: [0; 4], nonce: [0; auth::scram::NONCE_BYTES] };
        luck.salt.iter_mut().chain(&mut luck.nonce).for_each(|byte| *byte = dice.any() as u8);
        let step = Login::begin(method, known, luck, &mut self.out);
        self.login_goes_on(step.ok())
    }

    /// Handles received bytes.
    pub(crate) fn hear(&mut self, bytes: &[u8], manner: &Manner, dice: &mut Dice, witness: &mut Witness) -> Wish {
        self.input.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((kind, body, next)) = crate::message_at(&self.input, at) {
            let body = body.to_vec();
            at = next;
            if kind == frontend::TERMINATE {
                self.life = Life::Dead;
                return Wish::Close;
            }
            self.look(kind, &body, witness);
            self.queue.push_back((kind, body));
        }
        self.input.drain(..at);
        self.go_on(manner, dice, witness)
    }

    /// Takes messages from the queue until one has to wait for work.
    fn go_on(&mut self, manner: &Manner, dice: &mut Dice, witness: &mut Witness) -> Wish {
        while self.work.is_none() {
            let Some((kind, body)) = self.queue.pop_front() else {
                if self.copy.is_none() && !self.is_in_batch {
                    self.unanswered = None;
                }
                return Wish::Nothing;
            };
            if let Life::Login(_) = self.life {
                let Life::Login(login) = std::mem::replace(&mut self.life, Life::Dead) else { continue };
                let step = login.answer(&body, &mut self.out);
                match self.login_goes_on(step.ok()) {
                    Wish::Close => return Wish::Close,
                    _ => continue,
                }
            }
            self.take(kind, &body, witness);
        }
        let slow = match &self.work {
            Some(Work::Query { rest, .. }) => rest.iter().find_map(|text| match Statement::read(text)?.verb {
                Verb::Sleep { millis } | Verb::Last { millis } => Some(millis),
                _ => None,
            }),
            Some(Work::Execute { .. }) if self.is_about_secret() => manner.answers.millis(),
            Some(Work::Execute { .. }) => self.portal.as_ref().and_then(|portal| match portal.statement.verb {
                Verb::Sleep { millis } | Verb::Last { millis } => Some(millis),
                _ => None,
            }),
            Some(Work::Stream { millis }) => Some(*millis),
            _ => None,
        };
        let (low, high) = manner.work;
        let work = dice.micros(low..=high) + Duration::from_millis(slow.unwrap_or(0).into());
        self.alarm += 1;
        self.works_since = witness.now;
        Wish::Work(work)
    }

    /// Handles one message.
    fn take(&mut self, kind: u8, body: &[u8], witness: &mut Witness) {
        witness.note(|| {
            let text: String = String::from_utf8_lossy(&body[..body.len().min(60)]).escape_debug().collect();
            format!("server {} takes {} {text}", self.number, kind.escape_ascii())
        });
        if self.copy.is_some() {
            self.take_copy(kind, body, witness);
            return;
        }
        if self.is_skipping && kind != frontend::SYNC {
            return;
        }
        self.mind_batch(kind, witness);
        if self.is_failed_by_another()
            && matches!(kind, frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE)
        {
            self.fail("25P02", "current transaction is aborted", true);
            return;
        }
        match kind {
            frontend::QUERY => {
                let text = String::from_utf8_lossy(&body[..body.len() - 1]).into_owned();
                self.parsed = None;
                self.portal = None;
                self.prepared.hears(&text);
                let rest = text.split(';').map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
                self.work = Some(Work::Query { rest: rest.collect(), is_first: true });
            }
            frontend::PARSE => self.parse(body),
            frontend::BIND => self.bind(body, witness),
            frontend::DESCRIBE => match body.first() {
                Some(b'P') if self.about.is_some() => self.describe_answer(),
                Some(b'P') if self.portal.is_some() => self.describe(),
                Some(b'S') if body.len() > 2 => self.describe_named(&string(&body[1..])),
                _ => write::bare(&mut self.out, backend::NO_DATA),
            },
            // No client of the simulation opens a named portal.
            frontend::EXECUTE if self.execute_along(witness) => {}
            frontend::EXECUTE if body.first() != Some(&0) => self.fail("34000", "portal does not exist", true),
            frontend::EXECUTE => {
                let rows_max = body.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                self.work = Some(Work::Execute { rows_max });
            }
            frontend::CLOSE => {
                if body.starts_with(b"S\0") {
                    self.parsed = None;
                } else if body.first() == Some(&b'S') {
                    self.named.remove(&string(&body[1..]));
                    self.along.drop_one(&string(&body[1..]));
                }
                write::bare(&mut self.out, backend::CLOSE_COMPLETE);
            }
            frontend::FLUSH => self.is_flushed = true,
            frontend::SYNC => {
                self.is_skipping = false;
                self.portal = None;
                self.ready();
            }
            frontend::FUNCTION_CALL => match nonce_of(kind, body) {
                Some(nonce) => self.work = Some(Work::Function { nonce }),
                None => self.fail("08P01", "a function call without a nonce", false),
            },
            // As in PostgreSQL, the remaining messages of a failed COPY are ignored.
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => {}
            _ => witness.accuse(Charge::ForeignBytes, format!("server {} hears a message {kind}", self.number)),
        }
    }

    fn parse(&mut self, body: &[u8]) {
        let text = body.split(|&byte| byte == 0).nth(1).unwrap_or_default();
        if along::is_of(&string(body)) {
            self.parse_along(&string(body), &String::from_utf8_lossy(text));
            return;
        }
        if body.first() != Some(&0) {
            self.parse_named(&string(body), &String::from_utf8_lossy(text));
            return;
        }
        self.transaction_begins();
        if self.parse_question(&String::from_utf8_lossy(text)) {
            return;
        }
        match Statement::read(&String::from_utf8_lossy(text)) {
            Some(statement) => {
                self.parsed = Some(statement);
                write::bare(&mut self.out, backend::PARSE_COMPLETE);
            }
            None => self.fail("42601", "syntax error", true),
        }
    }

    fn bind(&mut self, body: &[u8], witness: &mut Witness) {
        let name = string(body.splitn(2, |&byte| byte == 0).nth(1).unwrap_or_default());
        if along::is_of(&name) {
            return self.bind_along(&name, body);
        }
        if !name.is_empty() {
            let values = body.splitn(3, |&byte| byte == 0).nth(2).unwrap_or_default();
            self.bind_named(&name, first_value(values).unwrap_or_default(), witness);
            return;
        }
        if self.about.is_some() {
            let values = body.splitn(3, |&byte| byte == 0).nth(2).unwrap_or_default();
            self.bind_question(first_value(values).unwrap_or_default(), witness);
            return;
        }
        let Some(statement) = self.parsed.clone() else {
            self.fail("26000", "unnamed prepared statement does not exist", true);
            return;
        };
        let nonce = nonce_of(frontend::BIND, body);
        if nonce.is_some_and(|nonce| nonce.app != statement.nonce.app) {
            let text = format!("server {} binds {nonce:?} to the statement of {}", self.number, statement.nonce);
            witness.accuse(Charge::LoanEndedEarly, text);
        }
        self.portal = Some(Portal { statement, sent: 0 });
        write::bare(&mut self.out, backend::BIND_COMPLETE);
    }

    /// The work of a statement is done.
    pub(crate) fn worked(&mut self, alarm: u32, manner: &Manner, dice: &mut Dice, witness: &mut Witness) -> Wish {
        if alarm != self.alarm {
            return Wish::Nothing;
        }
        match self.work.take() {
            Some(Work::Query { rest, is_first }) => self.query(rest, is_first, manner, dice, witness),
            Some(Work::Execute { rows_max }) => match self.about.take() {
                Some(about) => {
                    self.tell_secret(&about, manner);
                    if matches!(self.life, Life::Dead) {
                        return Wish::Close;
                    }
                }
                None => self.execute(rows_max, witness),
            },
            Some(Work::Stream { .. }) => self.stream_goes_on(),
            Some(Work::Function { nonce }) => {
                if self.tx == TxStatus::Failed {
                    self.fail("25P02", &format!("{nonce} current transaction is aborted"), false);
                } else {
                    write::message(&mut self.out, backend::FUNCTION_CALL_RESPONSE, |out| {
                        let text = nonce.to_string();
                        out.extend((text.len() as u32).to_be_bytes());
                        out.extend(text.as_bytes());
                    });
                }
                self.ready();
            }
            None => return Wish::Nothing,
        }
        self.go_on(manner, dice, witness)
    }

    /// Continues with queued messages after a cancel request has ended the work.
    pub(crate) fn resume(&mut self, manner: &Manner, dice: &mut Dice, witness: &mut Witness) -> Wish {
        if self.work.is_some() { Wish::Nothing } else { self.go_on(manner, dice, witness) }
    }

    /// Returns the statement in this range of an application that the session runs, if any.
    pub(crate) fn runs(&self, app: u32, range: (u32, u32)) -> Option<Nonce> {
        let is_here = !matches!(self.life, Life::Dead) && self.work.is_some();
        let running = if is_here { self.running() } else { None };
        let is_meant = |nonce: &Nonce| nonce.app == app && (range.0..=range.1).contains(&nonce.number);
        running.and_then(Result::ok).filter(is_meant)
    }
}
