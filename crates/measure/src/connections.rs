//! Counts the outcomes of logins, TLS handshakes and cancel requests.
//!
//! Always true: each login, handshake and cancel request is counted once, when it has ended.

use base::words;

/// The step that a login had reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LoginStep {
    /// The client had not sent its startup packet.
    Startup,
    /// The TLS handshake was running.
    Tls,
    /// The client waited for a slot of `max_client_conn`.
    ClientLimit,
    /// The client waited for a rate limit.
    RateLimit,
    /// The client waited for the result of `auth_query`.
    AuthQuery,
    /// The client had to answer an authentication request.
    Password,
    /// The client waited for a password to be hashed.
    Hashing,
    /// The client waited for LDAP, PAM or another external authenticator.
    ExternalAuth,
    /// The client waited for the name of its system user (`peer`).
    SystemUser,
    /// The client was authenticated, and waited for a slot among the clients of its user and database.
    Admission,
    /// The client waited for the first login of its pool, which yields the server parameters.
    Server,
}

/// The outcome of a login.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LoginOutcome {
    /// The client may send requests.
    Accepted,
    /// The client got an error.
    Refused,
    /// The login took longer than `client_login_timeout`.
    TimedOut,
    /// The client disconnected.
    Gone,
}

/// The peer of a TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum HandshakePeer {
    /// A client.
    Client,
    /// A server.
    Server,
}

/// The outcome of a TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum HandshakeOutcome {
    /// A full handshake succeeded, which is expensive.
    Full,
    /// An earlier session was resumed.
    Resumed,
    /// The handshake failed.
    Failed,
}

/// The outcome of a cancel request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum CancelRequest {
    /// It was sent to the server that ran the query, or to the console.
    Sent,
    /// The query was waiting for a server, and was removed from the queue.
    Queued,
    /// The client ran no query, or no longer.
    Idle,
    /// No client has this cancel key.
    UnknownKey,
    /// The request was given up after `cancel_wait_timeout`.
    Expired,
    /// It was forwarded to another process (`[peers]`).
    Forwarded,
    /// The server could not be reached.
    Failed,
}

/// The counts of one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Connections {
    logins: [[u64; LoginOutcome::ALL.len()]; LoginStep::ALL.len()],
    handshakes: [[u64; HandshakeOutcome::ALL.len()]; HandshakePeer::ALL.len()],
    cancel_requests: [u64; CancelRequest::ALL.len()],
}

impl Connections {
    /// Counts the end of a login.
    pub fn login_ends(&mut self, step: LoginStep, outcome: LoginOutcome) {
        self.logins[step as usize][outcome as usize] += 1;
    }

    /// Counts the end of a TLS handshake.
    pub fn handshake_ends(&mut self, with: HandshakePeer, how: HandshakeOutcome) {
        self.handshakes[with as usize][how as usize] += 1;
    }

    /// Counts the end of a cancel request.
    pub fn cancel_request_ends(&mut self, how: CancelRequest) {
        self.cancel_requests[how as usize] += 1;
    }

    /// The number of logins with this step and outcome.
    #[must_use]
    pub fn logins(&self, step: LoginStep, outcome: LoginOutcome) -> u64 {
        self.logins[step as usize][outcome as usize]
    }

    /// The number of handshakes with this peer and outcome.
    #[must_use]
    pub fn handshakes(&self, with: HandshakePeer, how: HandshakeOutcome) -> u64 {
        self.handshakes[with as usize][how as usize]
    }

    /// The number of cancel requests with this outcome.
    #[must_use]
    pub fn cancel_requests(&self, how: CancelRequest) -> u64 {
        self.cancel_requests[how as usize]
    }
}

words!(LoginStep:
    Startup = "startup",
    Tls = "tls",
    ClientLimit = "client_limit",
    RateLimit = "rate_limit",
    AuthQuery = "auth_query",
    Password = "password",
    Hashing = "hashing",
    ExternalAuth = "external_auth",
    SystemUser = "system_user",
    Admission = "admission",
    Server = "server",
);
words!(LoginOutcome: Accepted = "accepted", Refused = "refused", TimedOut = "timed_out", Gone = "gone");
words!(HandshakePeer: Client = "client", Server = "server");
words!(HandshakeOutcome: Full = "full", Resumed = "resumed", Failed = "failed");
words!(CancelRequest:
    Sent = "sent",
    Queued = "queued",
    Idle = "idle",
    UnknownKey = "unknown_key",
    Expired = "expired",
    Forwarded = "forwarded",
    Failed = "failed",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_at_its_own_place() {
        let mut counted = Connections::default();
        let mut expected = 0;
        for step in LoginStep::ALL {
            for outcome in LoginOutcome::ALL {
                expected += 1;
                (0..expected).for_each(|_| counted.login_ends(step, outcome));
            }
        }
        let mut told = LoginStep::ALL.into_iter().flat_map(|step| LoginOutcome::ALL.map(|outcome| (step, outcome)));
        assert!(told.all(|(step, outcome)| {
            counted.logins(step, outcome) == (step as u64) * LoginOutcome::ALL.len() as u64 + outcome as u64 + 1
        }));
        counted.handshake_ends(HandshakePeer::Server, HandshakeOutcome::Resumed);
        counted.cancel_request_ends(CancelRequest::Queued);
        assert_eq!(counted.handshakes(HandshakePeer::Server, HandshakeOutcome::Resumed), 1);
        assert_eq!(counted.handshakes(HandshakePeer::Client, HandshakeOutcome::Resumed), 0);
        assert_eq!(CancelRequest::ALL.map(|how| counted.cancel_requests(how)), [0, 1, 0, 0, 0, 0, 0]);
    }
}
