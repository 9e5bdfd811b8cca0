//! How connections fare before they carry requests: logins, TLS handshakes, cancel requests.
//!
//! Always true: each login, handshake and cancel request is counted once, when it has ended.

use crate::words::words;

/// How far a client had come with its login.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LoginStep {
    /// It had not said what it wants.
    Startup,
    /// It was agreeing on TLS.
    Tls,
    /// It waited for one of the places of `max_client_conn`.
    ClientLimit,
    /// It waited for a rate limit.
    RateLimit,
    /// It waited for what `auth_query` tells of its user.
    AuthQuery,
    /// It had to prove who it is.
    Password,
    /// It waited for a password to be hashed.
    Hashing,
    /// It waited for LDAP, PAM or another authenticator.
    ExternalAuth,
    /// It waited for its name in the system (`peer`).
    SystemUser,
    /// It had shown who it is, and was given its place among the clients of its user and database.
    Admission,
    /// It waited for a first server, which tells the parameters.
    Server,
}

/// How a login has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LoginOutcome {
    /// The client may send requests.
    Accepted,
    /// It was told why it may not.
    Refused,
    /// It took longer than `client_login_timeout`.
    TimedOut,
    /// The client has gone.
    Gone,
}

/// Who began a TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum HandshakePeer {
    /// A client.
    Client,
    /// We, with a server.
    Server,
}

/// How a TLS handshake has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum HandshakeOutcome {
    /// Both sides have agreed, from nothing: that is dear.
    Full,
    /// They have gone on with an earlier session.
    Resumed,
    /// They have not agreed.
    Failed,
}

/// What has become of a cancel request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum CancelRequest {
    /// It was sent to the server that ran the query, or to the console.
    Sent,
    /// The query waited for a server, and was taken out of the queue.
    Queued,
    /// The client ran nothing, or nothing any more.
    Idle,
    /// No client has its key.
    UnknownKey,
    /// Nobody waited for it any more (`cancel_wait_timeout`).
    Expired,
    /// It went to another process (`[peers]`).
    Forwarded,
    /// The server could not be reached.
    Failed,
}

/// What one worker has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Connections {
    logins: [[u64; LoginOutcome::ALL.len()]; LoginStep::ALL.len()],
    handshakes: [[u64; HandshakeOutcome::ALL.len()]; HandshakePeer::ALL.len()],
    cancel_requests: [u64; CancelRequest::ALL.len()],
}

impl Connections {
    /// A login has ended.
    pub fn login_ends(&mut self, step: LoginStep, outcome: LoginOutcome) {
        self.logins[step as usize][outcome as usize] += 1;
    }

    /// A TLS handshake has ended.
    pub fn handshake_ends(&mut self, with: HandshakePeer, how: HandshakeOutcome) {
        self.handshakes[with as usize][how as usize] += 1;
    }

    /// It is known what becomes of a cancel request.
    pub fn cancel_request_ends(&mut self, how: CancelRequest) {
        self.cancel_requests[how as usize] += 1;
    }

    /// How many logins have ended so.
    #[must_use]
    pub fn logins(&self, step: LoginStep, outcome: LoginOutcome) -> u64 {
        self.logins[step as usize][outcome as usize]
    }

    /// How many handshakes have ended so.
    #[must_use]
    pub fn handshakes(&self, with: HandshakePeer, how: HandshakeOutcome) -> u64 {
        self.handshakes[with as usize][how as usize]
    }

    /// How many cancel requests have ended so.
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
