//! What a session sends before, during or instead of a login: the answer to `SSLRequest`, authentication requests,
//! errors, nonsense.
//!
//! Always true: during a handshake the session sends nothing else; after a refusal it sends nothing more.
//! Not here: the bytes of the handshake (`fake_tls`), which host offers TLS and whom it refuses (`postgres`).

use protocol::client::login::Step;
use wire::backend::TxStatus;
use wire::write;

use super::state::{Life, Session, Wish};
use crate::sim::fake_tls::HELLO;

impl Session {
    /// Answers an `SSLRequest`.
    pub(crate) fn answer_tls(&mut self, answer: u8) -> Wish {
        self.out.push(answer);
        self.is_flushed = true;
        self.is_handshaking = answer == b'S';
        Wish::Nothing
    }

    /// Returns whether the handshake is complete with these bytes; None if they are wrong.
    pub(crate) fn shake(&mut self, bytes: &[u8]) -> Option<bool> {
        self.input.extend_from_slice(bytes);
        if !HELLO.starts_with(&self.input) {
            return None;
        }
        self.is_handshaking = self.input.len() < HELLO.len();
        if !self.is_handshaking {
            self.input.clear();
        }
        Some(!self.is_handshaking)
    }

    /// Continues a login after its last answer has led to this step.
    pub(crate) fn login_goes_on(&mut self, step: Option<Step>) -> Wish {
        match step {
            Some(Step::Ask(login)) => {
                self.life = Life::Login(Box::new(login));
                self.is_flushed = true;
                Wish::Nothing
            }
            Some(Step::Passed(_)) => self.welcome(),
            Some(Step::Derive(unproved, derivation)) => match unproved.prove(&derivation.run()) {
                Ok(()) => self.welcome(),
                Err(_) => self.login_goes_on(None),
            },
            // The simulated PostgreSQL has no external authenticators.
            Some(Step::ExternalAuth(_)) | None => self.refuse("28P01", "password authentication failed"),
        }
    }

    pub(super) fn welcome(&mut self) -> Wish {
        let out = &mut self.out;
        write::authentication(out, 0, &[]);
        for (name, value) in [
            ("server_version", "15.0"),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("IntervalStyle", "postgres"),
            ("standard_conforming_strings", "on"),
            ("TimeZone", &*self.vars.zone),
            ("application_name", &*self.vars.application_name),
        ] {
            write::parameter_status(out, name, value);
        }
        self.tell_role();
        let out = &mut self.out;
        let mut key = self.number.to_be_bytes().to_vec();
        key.extend(self.secret.to_be_bytes());
        write::backend_key_data(out, &key);
        write::ready_for_query(out, TxStatus::Idle);
        self.is_flushed = true;
        self.life = Life::Ready;
        Wish::Nothing
    }

    /// Sends a message that is not allowed during a login.
    pub(crate) fn rave(&mut self) -> Wish {
        self.row_description();
        self.is_flushed = true;
        Wish::Nothing
    }

    /// Asks for GSSAPI authentication.
    pub(crate) fn ask_for_gss(&mut self) -> Wish {
        write::authentication(&mut self.out, GSS, &[]);
        self.is_flushed = true;
        Wish::Nothing
    }
}

/// The code of `AuthenticationGSS`.
const GSS: u32 = 7;
