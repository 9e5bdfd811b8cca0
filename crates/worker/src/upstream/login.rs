//! Logs in to a server.
//!
//! Always true: a login ends in exactly one of `Ready` and `DialFailed`; messages behind the login are read like those
//! of any server.
//! Not here: the proof of identity (`protocol::server::login`), how the server is reached (`dial`).

use std::borrow::Cow;
use std::rc::Rc;

use pool::{Failure, PoolKey, ServerKey};
use protocol::client::statuses::Statuses;
use protocol::server::login::{Arrival, Identity, LOGIN_MESSAGE_BYTES_MAX, LoginFault, ServerLogin, Step as LoginStep};
use protocol::vars::Vars;
use reactor::{Io, Level, Receive};
use wire::{Step, write};

use crate::data::server::ServerStage;
use crate::registry::{Doubt, Welcome};
use crate::upstream::role::Reported;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Begins the login on an established connection.
    pub(crate) fn begin_server_login(&mut self, key: ServerKey) {
        let mut nonce = [0; auth::scram::NONCE_BYTES];
        self.hands.io.randomness(&mut nonce);
        let Some(server) = self.servers.get(key) else { return };
        let channel = server.security().and_then(|security| security.end_point.clone());
        let identity = match self.identity(server.pool(), server.dedicated().is_none()) {
            Ok(identity) => Identity { channel, ..identity },
            Err(failure) => {
                self.dial_failed(key, failure);
                return;
            }
        };
        let identity = self.identity_of_dedicated(key, identity);
        let mut out = Vec::new();
        let login = ServerLogin::begin(identity, nonce, &mut out);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.enters(ServerStage::Login(Box::new(login)));
        self.hands.io.send(server.conn(), out.into());
        self.hands.io.receive(server.conn(), Receive::Stream);
    }

    /// The user and secret for the pool's servers: the secret is the database line's own, else that of the user. A
    /// shared server (`is_shared`) gets the `application_name` of the client that logged in last: most clients of a
    /// pool are one program, and a reset goes back to this name, so that it need not be set again.
    fn identity(&self, pool: PoolKey, is_shared: bool) -> Result<Identity, Failure> {
        let place = self.registry.pool(pool).zip(self.registry.entry_of(pool));
        let (place, entry) = place.ok_or_else(|| Failure::unreachable("database removed"))?;
        // At a replica with what its clients have proved at their own pool.
        let proved = place.home.and_then(|home| self.registry.pool(home)).unwrap_or(place);
        let parameters = [
            ("client_encoding", &entry.client_encoding),
            ("datestyle", &entry.datestyle),
            ("timezone", &entry.timezone),
            ("application_name", &entry.application_name),
        ];
        let mut parameters: Vec<(Cow<'static, str>, Box<str>)> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), (**value.as_ref()?).into())))
            .collect();
        // Not for the first server, whose `ParameterStatus` becomes the default for clients that send no name.
        let name =
            place.latest.as_ref().filter(|_| is_shared && place.welcome.is_some() && entry.application_name.is_none());
        let name = name.and_then(|vars| vars.get(self.hands.active.tracked.application_name()));
        if let Some(name) = name.filter(|name| !name.is_empty() && name.is_ascii()) {
            parameters.push(("application_name".into(), name.into()));
        }
        Ok(Identity {
            user: place.user_name.clone(),
            database: entry.dbname.clone(),
            secret: self.secret_of_pool(proved, entry).0,
            keys: proved.keys.clone(),
            salted: proved.salted.clone(),
            iterations_max: self.hands.active.settings.scram_iterations_max,
            channel: None,
            parameters,
        })
    }

    /// Handles a server's messages during its login. Returns where the bytes stop belonging to the login, if they do.
    pub(crate) fn login_answered(&mut self, key: ServerKey, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let server = self.servers.get_mut(key)?;
            let conn = server.conn();
            let (ServerStage::Login(login), session) = server.stage_and_session() else { return Some(at) };
            let piece = match session.scanner.next(bytes, at, LOGIN_MESSAGE_BYTES_MAX) {
                Step::Piece(piece) => piece,
                Step::More => return None,
                Step::Bad { kind, .. } => {
                    self.login_failed(key, &LoginFault::Nonsense(kind));
                    return None;
                }
            };
            at = piece.range.end;
            let step = if piece.is_whole() {
                login.hear(piece.kind, &bytes[piece.body])
            } else {
                session.collected.extend_from_slice(&bytes[piece.body.clone()]);
                if !piece.is_last() {
                    continue;
                }
                let body = std::mem::take(&mut session.collected);
                login.hear(piece.kind, &body)
            };
            match step {
                Ok(LoginStep::Wait) => {}
                Ok(LoginStep::Send(out)) => self.hands.io.send(conn, out.into()),
                Ok(LoginStep::Derive(derivation)) => self.hash_for_server(key, derivation),
                Ok(LoginStep::Ready(arrival)) => self.arrived(key, arrival),
                Err(fault) => {
                    self.login_failed(key, &fault);
                    return None;
                }
            }
        }
        None
    }

    /// The login is complete.
    fn arrived(&mut self, key: ServerKey, arrival: Arrival) {
        let tracked = &self.hands.active.tracked;
        let mut vars = Vars::new(tracked);
        let mut fixed = Vec::new();
        write::authentication(&mut fixed, 0, &[]);
        for (name, value) in &arrival.parameters {
            match tracked.reported_place(name) {
                Some(place) => drop(vars.set(place, value)),
                None => write::parameter_status(&mut fixed, name, value),
            }
        }
        let vars = self.known_vars.share(vars);
        let statuses = Statuses::new(vars.clone(), tracked);
        let Some(server) = self.servers.get_mut(key) else { return };
        server.session_mut().begins_with(vars.clone());
        let pool = server.pool();
        server.note_welcome(arrival.key, Rc::new(Welcome { fixed, statuses, begun: None }));
        if let Some(place) = self.registry.pool_mut(pool) {
            (place.salted, place.doubt) = (arrival.salted, Doubt::None);
        }
        let parameters = &arrival.parameters;
        let value = |name: &str| parameters.iter().find(|(other, _)| **other == *name).map(|(_, value)| &**value);
        if self.fits_its_database(key, Reported::read(value)) {
            self.begin_introduction(key);
        }
    }

    fn login_failed(&mut self, key: ServerKey, fault: &LoginFault) {
        let line = self.server_prefix(key);
        let failure = match fault {
            LoginFault::Refused(notice) => {
                let (severity, message) = (&notice.severity, &notice.message);
                if self.servers.get(key).is_some_and(|server| server.dedicated().is_some()) {
                    self.hands.log.about(&line, Level::Error, format_args!("S: login failed: {severity}: {message}"));
                } else {
                    let words = format_args!("server login failed: {severity} {message}");
                    self.hands.log.about(&line, self.dial_level(key, Level::Warning), words);
                }
                let sqlstate = notice.sqlstate.as_bytes().try_into().unwrap_or(*b"08P01");
                if let Some(server) = self.servers.get(key).filter(|_| sqlstate == NO_SUCH_DATABASE) {
                    self.registry.database_at_mut(server.database()).is_missing = true;
                }
                Failure::refused(sqlstate, message.as_str()).explained(notice.detail.as_deref(), notice.hint.as_deref())
            }
            LoginFault::KeysMissing => {
                let why = "cannot do SCRAM authentication: password is SCRAM secret but client authentication did not \
                           provide SCRAM keys";
                self.hands.log.about(&line, Level::Warning, format_args!("{why}"));
                let why = "The server asks for SCRAM, and a SCRAM secret can answer that only if its client has logged in by \
                           scram-sha-256 here: the password itself can.";
                Failure::unproved("server login failed: wrong password type").explained(Some(why), None)
            }
            LoginFault::WrongSecret(why) => {
                let text = "server login failed: wrong password type";
                self.hands.log.about(&line, Level::Warning, format_args!("{text} ({why})"));
                Failure::unproved(text).explained(Some(why), None)
            }
            LoginFault::Unproved(text) => self.unproved(key, format_args!("{text}")),
            LoginFault::IterationsRefused { iterations: 0, .. } => {
                self.unproved(key, format_args!("server asks for a SCRAM iteration count of 0"))
            }
            LoginFault::IterationsRefused { iterations, allowed } => {
                let most = format_args!("more than {allowed} (scram_iterations_max)");
                self.unproved(key, format_args!("server asks for {iterations} SCRAM iterations, {most}"))
            }
            LoginFault::UnknownMechanisms(names) => {
                let text = "none of the server's SASL authentication mechanisms are supported";
                self.unproved(key, format_args!("{text}: {names}"))
            }
            LoginFault::UnknownMethod(code) => {
                self.hands.log.about(&line, Level::Error, format_args!("unknown/unsupported auth method: {code}"));
                let text = "server login failed: unsupported authentication method";
                Failure::unproved(text)
            }
            LoginFault::Nonsense(kind) => {
                self.protocol_violations += 1;
                let shown = kind.escape_ascii();
                self.hands.log.about(
                    &line,
                    Level::Error,
                    format_args!("nonsense during login, message kind '{shown}'"),
                );
                Failure::unreachable("server conn crashed?")
            }
        };
        self.dial_failed(key, failure);
    }

    /// We have not been able to prove who we are: logs why.
    fn unproved(&mut self, key: ServerKey, why: std::fmt::Arguments<'_>) -> Failure {
        let text = format!("server login failed: {why}");
        self.log_server(key, Level::Warning, format_args!("{text}"));
        Failure::unproved(text)
    }
}

/// The server has no database of this name (`ERRCODE_UNDEFINED_DATABASE`).
const NO_SUCH_DATABASE: [u8; 5] = *b"3D000";
