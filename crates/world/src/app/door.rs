//! How an application comes in: from the answer to its dial to the first `ReadyForQuery`.
//!
//! Always true: it is welcomed with the parameters that it has asked for; who comes in a guise that must be refused is not let
//! in.
//! Not here: which guises there are (`guise`).

use protocol::server::login::{Identity, LoginFault, ServerLogin, Step};
use wire::{backend, write};

use super::belief::{Belief, ZONES};
use super::guise::{self, GSS_REQUEST, Guise, SSL_REQUEST};
use super::speaker::Speaker;
use super::state::{Alarm, App, Ended, NOWHERE, Stage};
use crate::checks::witness::{Charge, Witness};
use crate::plan::Proof;
use crate::postgres::sql::Nonce;
use crate::sim::fake_tls::{ANSWER, CHANNEL, HELLO};
use crate::sim::net::Net;

impl App {
    /// Its dial was answered.
    pub(crate) fn connected(&mut self, net: &mut Net, is_welcome: bool, witness: &mut Witness) -> Option<Ended> {
        if !is_welcome {
            self.gone(net, witness, "is not let in");
            return Some(Ended::Silent);
        }
        let end = self.end?;
        let habits = self.habits.clone();
        let mut zone = if habits.is_plain { ZONES[0] } else { self.dice.pick(&ZONES) };
        if !self.is_gentle && self.dice.chance(habits.lost) {
            zone = NOWHERE;
        }
        if self.person.is_operator() {
            zone = ZONE_OF_THE_CONSOLE;
        }
        self.guise = Guise::Own;
        if !self.is_gentle && self.dice.chance(habits.strange) {
            self.guise = Guise::draw(&mut self.dice, &self.person);
            witness.count("strange guises");
        }
        if !self.is_gentle
            && self.guise == Guise::Own
            && let Some(guise) = self.door.guise(&mut self.dice)
        {
            self.guise = guise;
            witness.count("unusual guises");
        }
        let usual = self.guise.refusal(self.person.proof);
        self.refusal_due = self.door.refusal(self.guise).or(usual);
        if self.door.is_impostor(net.end(end ^ 1).uid) {
            // Whatever else it comes as.
            self.guise = Guise::Impostor;
            self.refusal_due = self.guise.refusal(self.person.proof);
        }
        witness.note(|| format!("application {} comes as {:?}", self.number, self.guise));
        let is_encrypted = habits.tls > 0 && self.guise.can_be_encrypted() && self.dice.chance(habits.tls);
        self.belief = Belief::new(zone);
        if habits.is_given_mark {
            self.belief.is_given(Nonce { app: self.number, number: 0 }.to_string());
        }
        let name = self.name();
        let mut parameters = vec![("TimeZone".into(), zone.into()), ("application_name".into(), (*name).into())];
        if habits.is_given_mark {
            parameters.push(("options".into(), format!("-c app.mark={}", self.belief.given).into()));
            witness.count("sessions that begin with a mark");
        }
        if habits.replicates {
            let word = self.dice.pick(&["database", "database", "true", "on"]);
            parameters.push(("replication".into(), word.into()));
            parameters.push(("options".into(), format!("owner={}", self.number).into()));
            witness.count("replication connections");
        }
        let mut identity = Identity {
            user: (*self.person.user).into(),
            database: (*self.person.database).into(),
            secret: self.secret.clone(),
            keys: None,
            salted: None,
            iterations_max: u32::MAX,
            channel: is_encrypted.then(|| CHANNEL.into()),
            parameters,
        };
        self.guise.dress(&mut identity);
        self.door.dress(self.guise, &mut identity);
        if *identity.database != *self.person.database && self.guise != Guise::NoDatabase {
            // There may be nothing to be set.
            identity.parameters.retain(|(name, _)| &**name != "options");
        }
        let mut nonce = [0; auth::scram::NONCE_BYTES];
        nonce.iter_mut().for_each(|byte| *byte = self.dice.any() as u8);
        let mut out = Vec::new();
        let login = ServerLogin::begin(identity, nonce, &mut out);
        self.stage = Stage::Login(Box::new(login));
        self.guise.disguise(&mut out);
        let is_open = self.person.proof == Proof::None && !self.person.is_proof_unsure && self.refusal_due.is_none();
        if is_open && self.dice.chance(habits.hasty) {
            self.say_early(&mut out, witness);
        }
        let is_mute = self.guise == Guise::Silent;
        if is_mute || !self.is_gentle && self.dice.chance(self.habits.vanishes) {
            let after = self.dice.among(0..=if is_mute { 2_000_000 } else { 5_000 });
            self.set_alarm(net, after, Alarm::Vanish);
        }
        match self.guise {
            // What it has said too early it says again.
            Guise::Impatient => self.after_encryption = Some(out.split_at(ENCRYPTION_REQUEST_BYTES).1.to_vec()),
            Guise::Encrypting(code) => {
                self.after_encryption = Some(std::mem::replace(&mut out, guise::encryption_request(code)));
            }
            Guise::Tls => self.shaking = Some(std::mem::replace(&mut out, HELLO.to_vec())),
            _ if is_encrypted => {
                self.after_encryption = Some(std::mem::replace(&mut out, guise::encryption_request(SSL_REQUEST)));
            }
            _ => {}
        }
        net.say(end, out);
        None
    }

    /// Its first request, before it is let in.
    fn say_early(&mut self, out: &mut Vec<u8>, witness: &mut Witness) {
        let mut speaker = Speaker {
            dice: &mut self.dice,
            habits: &self.habits,
            app: self.number,
            next: &mut self.next,
            belief: &mut self.belief,
        };
        let request = speaker.early();
        out.extend_from_slice(&request.bytes);
        self.says(&request, witness);
        self.asked.push_back(request);
        witness.count("early requests");
    }

    /// The answer to its request for encryption is one byte, unless it is refused. Then there may be a handshake.
    pub(super) fn mind_encryption(&mut self, net: &mut Net, witness: &mut Witness) {
        let Some(end) = self.end else { return };
        if let Some(startup) = self.shaking.take() {
            self.shake(net, end, startup, witness);
            return;
        }
        let Some(startup) = self.after_encryption.take_if(|_| !self.input.is_empty()) else { return };
        let is_for_tls = self.guise != Guise::Encrypting(GSS_REQUEST);
        let is_offered = self.habits.tls > 0;
        match self.input[0] {
            b'S' if is_for_tls && is_offered => {
                self.input.remove(0);
                self.shaking = Some(startup);
                net.say(end, HELLO.to_vec());
                witness.count("handshakes");
            }
            b'N' if is_for_tls && is_offered => {
                self.accuse(witness, Charge::NotServed, "TLS is refused, though it is offered");
            }
            b'N' if self.habits.tls == ALWAYS => {
                // Nobody gets in without encryption: it asks for the other kind.
                self.input.remove(0);
                self.guise = Guise::Encrypting(SSL_REQUEST);
                self.after_encryption = Some(startup);
                net.say(end, guise::encryption_request(SSL_REQUEST));
            }
            b'N' => {
                self.input.remove(0);
                // Its impatience may have gone unnoticed.
                self.refusal_due = None;
                if self.guise != Guise::Impatient {
                    net.say(end, startup);
                }
            }
            backend::ERROR_RESPONSE => {}
            answer => self.accuse(witness, Charge::ForeignBytes, &format!("{answer} to its request for encryption")),
        }
    }

    /// Something has come in a handshake.
    fn shake(&mut self, net: &mut Net, end: u32, startup: Vec<u8>, witness: &mut Witness) {
        if self.guise == Guise::Tls && self.input.first() == Some(&backend::ERROR_RESPONSE) {
            // There is no room for it; nobody knew that it would speak TLS.
            witness.count("refused in clear");
        } else if !ANSWER.starts_with(&self.input) {
            self.accuse(witness, Charge::ForeignBytes, "nonsense in its handshake");
        } else if self.input.len() < ANSWER.len() {
            self.shaking = Some(startup);
        } else {
            self.input.clear();
            net.end_mut(end).is_encrypted = true;
            if self.guise == Guise::Tls {
                self.refusal_due = None;
            }
            witness.count("tls");
            net.say(end, startup);
        }
    }

    /// Something has come while it is logging in.
    pub(super) fn hear_at_the_door(&mut self, net: &mut Net, kind: u8, body: &[u8], witness: &mut Witness) {
        let Stage::Login(login) = &mut self.stage else { return };
        let step = match login.hear(kind, body) {
            Ok(Step::Derive(derivation)) => Ok(Step::Send(login.salted(derivation.run().into()).unwrap_or_default())),
            step => step,
        };
        match step {
            Ok(Step::Wait | Step::Derive(_)) => {}
            Ok(Step::Send(mut out)) => {
                // The last word of a proof, with which the first request may go along.
                let is_last = !body.starts_with(&[0, 0, 0, SASL]);
                if self.guise == Guise::WrongMessage {
                    out.clear();
                    write::query(&mut out, "no password");
                } else if is_last && self.refusal_due.is_none() && self.dice.chance(self.habits.hasty) {
                    self.say_early(&mut out, witness);
                }
                if let Some(end) = self.end {
                    net.say(end, out);
                }
            }
            Ok(Step::Ready(_)) if self.refusal_due.is_some() => {
                let text = format!("it is let in as {:?}", self.guise);
                self.accuse(witness, Charge::ForeignBytes, &text);
            }
            Ok(Step::Ready(arrival)) => {
                self.key = arrival.key.to_vec();
                // With protocol 3.2 a secret has 32 bytes, with 3.0 four.
                let bytes = if self.guise == Guise::Newer { 36 } else { 8 };
                if self.key.len() != bytes {
                    let text = format!("its key has {} bytes and not {bytes}", self.key.len());
                    self.accuse(witness, Charge::ForeignBytes, &text);
                }
                self.stage = Stage::Ready;
                self.waits_since = None;
                self.answered = witness.now;
                witness.count("logins");
                self.logins += 1;
                witness.guests.push(self.number);
                let name = self.name();
                for (is, value) in &arrival.parameters {
                    let must = match &**is {
                        "TimeZone" => &self.belief.zone,
                        "application_name" => &name,
                        _ => continue,
                    };
                    // The host is added to it if the operator wants that.
                    let is_longer = **is == *"application_name" && value.starts_with(&format!("{must} - "));
                    if **value != **must && !is_longer {
                        self.accuse(witness, Charge::LeftOver, &format!("welcomed with {is} {value}, not {must}"));
                    }
                }
                match self.asked.is_empty() {
                    true => self.act_soon(net),
                    false => self.waits_since = Some(witness.now),
                }
            }
            Err(LoginFault::Refused(notice)) => {
                // It was let in, and nobody could greet it for as long as that.
                self.logins += u64::from(notice.message.starts_with("query_wait_timeout"));
                self.last_words = Some((notice.sqlstate.to_string(), notice.message.to_string()));
            }
            Err(fault) => self.accuse(witness, Charge::ForeignBytes, &format!("a login of nonsense: {fault:?}")),
        }
    }
}

/// A habit without exception.
const ALWAYS: u32 = 1000;
/// Bytes of a request for encryption.
const ENCRYPTION_REQUEST_BYTES: usize = 8;
/// The TimeZone of the console.
const ZONE_OF_THE_CONSOLE: &str = "GMT";
/// The code of `AuthenticationSASL`, its last byte: the first answer to it is not the last.
const SASL: u8 = 10;
