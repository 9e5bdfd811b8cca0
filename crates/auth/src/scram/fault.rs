//! Why a SCRAM login failed.
//!
//! Always true: the texts are for the log and contain no secret. The only text of a peer in them is a server's `e=` error,
//! without control characters.
//! Not here: the error for the client (`protocol`), which is the same for all faults.

use std::fmt;

/// Why a SCRAM login failed. Display is written for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScramFault {
    /// A message does not follow RFC 5802.
    Malformed {
        /// The message.
        message: Message,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The client requires channel binding (GS2 flag `p`), but chose the mechanism without it or was not offered it.
    ChannelBindingRequired,
    /// The client chose SCRAM-SHA-256-PLUS, but its message has no channel binding.
    ChannelBindingMissing,
    /// The client thinks that we do not support channel binding (GS2 flag `y`), although we offered it: a man in the middle has
    /// removed the offer.
    ChannelBindingDowngrade,
    /// The client uses another type of channel binding than `tls-server-end-point`.
    ChannelBindingUnknown,
    /// The GS2 header or the channel binding data in the client-final-message is not that of this login.
    ChannelBindingMismatch,
    /// The client sent an authorization identity (`a=` of the GS2 header).
    AuthorizationIdentity,
    /// The peer requires a mandatory extension (`m=`), of which we support none.
    MandatoryExtension,
    /// The nonce is not the one of this login.
    NonceMismatch,
    /// The client does not know the password, or there is no such user.
    ProofWrong,
    /// The server asks for 0 iterations, or for more than are allowed.
    IterationsRefused {
        /// The requested number; `u64::MAX` stands for all larger numbers.
        iterations: u64,
        /// The largest allowed number.
        allowed: u32,
    },
    /// The server's signature is wrong, so the server does not know the keys of the password and is not authentic.
    ServerSignatureInvalid,
    /// The server refused the login with this error.
    ServerError(String),
}

/// The four messages of a SCRAM login, under their names in RFC 5802.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The client's GS2 header, name and nonce.
    ClientFirst,
    /// The nonces of client and server, the salt and the iterations.
    ServerFirst,
    /// The client's proof.
    ClientFinal,
    /// The server's signature, or an error.
    ServerFinal,
}

/// What is wrong with a malformed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is longer than any valid message.
    TooLong,
    /// It contains a NUL byte.
    Nul,
    /// It does not begin with a GS2 flag: `n`, `y` or `p`.
    ChannelBindingFlag,
    /// This attribute is missing at its place.
    Expected(char),
    /// The value of this attribute is invalid.
    Invalid(char),
    /// The text at the place of an attribute is no attribute.
    NoAttribute,
    /// Bytes follow the attribute that must be the last.
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
