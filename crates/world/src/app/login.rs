//! The login of an application: from the accepted connection to the first `ReadyForQuery`.
//!
//! Always true: the login reports the parameters that the application has asked for; an application in a guise that
//! must be refused is not let in.
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
    /// The connection was accepted or refused.
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
            && let Some(guise) = self.login_plan.guise(&mut self.dice)
        {
            self.guise = guise;
            witness.count("unusual guises");
        }
        let usual = self.guise.refusal(self.person.proof);
        self.refusal_due = self.login_plan.refusal(self.guise).or(usual);
        if self.login_plan.is_impostor(net.end(end ^ 1).uid) {
            // Overrides any other guise.
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
        self.login_plan.dress(self.guise, &mut identity);
        if *identity.database != *self.person.database && self.guise != Guise::NoDatabase {
            // That database may have no option to set.
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
            // The startup packet, which was sent too early, is sent again after the answer.
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

    /// Sends the first request before the login has ended.
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

    /// Handles the one-byte answer to an `SSLRequest` or `GSSENCRequest`, or the bytes of the handshake after it.
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
                // TLS is required, so the application asks for it instead of GSSAPI.
                self.input.remove(0);
                self.guise = Guise::Encrypting(SSL_REQUEST);
                self.after_encryption = Some(startup);
                net.say(end, guise::encryption_request(SSL_REQUEST));
            }
            b'N' => {
                self.input.remove(0);
                // The pooler may have read the request for encryption before the packet behind it, and so not have
                // noticed that packet.
                self.refusal_due = None;
                if self.guise != Guise::Impatient {
                    net.say(end, startup);
                }
            }
            backend::ERROR_RESPONSE => {}
            answer => self.accuse(witness, Charge::ForeignBytes, &format!("{answer} to its request for encryption")),
        }
    }

    /// Handles bytes of the TLS handshake.
    fn shake(&mut self, net: &mut Net, end: u32, startup: Vec<u8>, witness: &mut Witness) {
        if self.guise == Guise::Tls && self.input.first() == Some(&backend::ERROR_RESPONSE) {
            // The pooler has no room for the client, and refused it in plain text before it knew that the client would
            // use TLS.
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

    /// Handles a message during the login.
    pub(super) fn hear_login(&mut self, net: &mut Net, kind: u8, body: &[u8], witness: &mut Witness) {
        let Stage::Login(login) = &mut self.stage else { return };
        let step = match login.hear(kind, body) {
            Ok(Step::Derive(derivation)) => Ok(Step::Send(login.salted(derivation.run().into()).unwrap_or_default())),
            step => step,
        };
        match step {
            Ok(Step::Wait | Step::Derive(_)) => {}
            Ok(Step::Send(mut out)) => {
                // The last message of the password exchange may be followed by the first request in the same packet.
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
                // The key is a process ID and a secret, which has 32 bytes in protocol 3.2 and 4 in 3.0.
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
                    // `application_name_add_host` appends the host to the name.
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
                // The client was let in, but no server was available within `query_wait_timeout` to send the welcome.
                self.logins += u64::from(notice.message.starts_with("query_wait_timeout"));
                self.last_words = Some((notice.sqlstate.to_string(), notice.message.to_string()));
            }
            Err(fault) => self.accuse(witness, Charge::ForeignBytes, &format!("a login of nonsense: {fault:?}")),
        }
    }
}

/// The value of a habit that has no exception (per mille).
const ALWAYS: u32 = 1000;
/// Length of an `SSLRequest` or `GSSENCRequest`.
const ENCRYPTION_REQUEST_BYTES: usize = 8;
/// The TimeZone that the admin console reports.
const ZONE_OF_THE_CONSOLE: &str = "GMT";
/// The last byte of the code of `AuthenticationSASL`. The answer to that message is not the last one of the exchange.
const SASL: u8 = 10;
