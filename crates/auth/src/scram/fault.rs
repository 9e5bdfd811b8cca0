//! Why a SCRAM login ended.
//!
//! Always true: the texts are for a log and contain no secret; of what the peer sent they contain nothing but the words
//! of a server's own `e=` error, without control characters.
//! Not here: what a client is told (`protocol`): for it, all of these are one refusal.

use std::fmt;

/// Why a SCRAM login ended. Display is written for a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScramFault {
    /// A message does not follow RFC 5802.
    Malformed {
        /// Which of the four.
        message: Message,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The client binds its login (GS2 flag `p`) by a mechanism that is not bound.
    ChannelBindingRequired,
    /// The client has chosen the mechanism that is bound, and does not bind its login.
    ChannelBindingMissing,
    /// The client thinks that we cannot bind logins (GS2 flag `y`), but we have offered it: somebody in between has taken the
    /// offer out.
    ChannelBindingDowngrade,
    /// The client binds its login to something else than `tls-server-end-point`.
    ChannelBindingUnknown,
    /// The client-final-message repeats another GS2 header than the client-first-message had.
    ChannelBindingMismatch,
    /// The client wants to act for somebody else (`a=` of the GS2 header).
    AuthorizationIdentity,
    /// The peer demands an extension (`m=`), and there is none that we know.
    MandatoryExtension,
    /// The nonce is not the one of this login.
    NonceMismatch,
    /// The client does not know the password, or there is no such user.
    ProofWrong,
    /// The server asks for no iteration at all, or for more than are allowed.
    IterationsRefused {
        /// How many it asks for; `u64::MAX` for all that is beyond it.
        iterations: u64,
        /// The most that are allowed.
        allowed: u32,
    },
    /// The server does not know the password's keys: it is not who it claims to be.
    ServerSignatureInvalid,
    /// The server refused the login in its own words.
    ServerError(String),
}

/// The four messages of a SCRAM login, under their names in RFC 5802.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The client's GS2 header, name and nonce.
    ClientFirst,
    /// The nonce of both, salt and iterations.
    ServerFirst,
    /// The client's proof.
    ClientFinal,
    /// The server's signature, or an error.
    ServerFinal,
}

/// What is wrong with a malformed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is longer than any honest peer would send.
    TooLong,
    /// It contains a NUL byte.
    Nul,
    /// It does not begin with a GS2 flag: `n`, `y` or `p`.
    ChannelBindingFlag,
    /// This attribute should stand where something else stands, or nothing.
    Expected(char),
    /// The value of this attribute cannot be what it should be.
    Invalid(char),
    /// Something that is no attribute stands where an optional one may stand.
    NoAttribute,
    /// Something follows the attribute that must be the last.
    Trailing,
}

impl fmt::Display for ScramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { message, flaw } => write!(f, "malformed SCRAM {message} ({flaw})"),
            Self::ChannelBindingRequired => {
                f.write_str("client requires SCRAM channel binding, but it is not supported")
            }
            Self::ChannelBindingMissing => f.write_str(
                "client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data",
            ),
            Self::ChannelBindingDowngrade => f.write_str(
                "SCRAM channel binding negotiation error: the client thinks that it was not offered, but it was",
            ),
            Self::ChannelBindingUnknown => f.write_str("unsupported SCRAM channel-binding type"),
            Self::ChannelBindingMismatch => f.write_str("SCRAM channel binding check failed"),
            Self::AuthorizationIdentity => {
                f.write_str("client uses a SCRAM authorization identity, but it is not supported")
            }
            Self::MandatoryExtension => f.write_str("SCRAM message requires an extension that is not supported"),
            Self::NonceMismatch => f.write_str("invalid SCRAM response (nonce mismatch)"),
            Self::ProofWrong => f.write_str("wrong SCRAM proof"),
            Self::IterationsRefused { iterations: 0, .. } => {
                f.write_str("server asks for a SCRAM iteration count of 0")
            }
            Self::IterationsRefused { iterations, allowed } => {
                write!(f, "server asks for {iterations} SCRAM iterations, more than the {allowed} allowed")
            }
            Self::ServerSignatureInvalid => f.write_str("invalid server signature"),
            Self::ServerError(text) => write!(f, "error received from server in SCRAM exchange: {text}"),
        }
    }
}

impl std::error::Error for ScramFault {}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientFirst => "client-first-message",
            Self::ServerFirst => "server-first-message",
            Self::ClientFinal => "client-final-message",
            Self::ServerFinal => "server-final-message",
        })
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("too long"),
            Self::Nul => f.write_str("contains a NUL byte"),
            Self::ChannelBindingFlag => f.write_str("no channel-binding flag"),
            Self::Expected(attribute) => write!(f, "attribute \"{attribute}\" expected"),
            Self::Invalid(attribute) => write!(f, "invalid value of attribute \"{attribute}\""),
            Self::NoAttribute => f.write_str("attribute expected"),
            Self::Trailing => f.write_str("garbage at the end"),
        }
    }
}
