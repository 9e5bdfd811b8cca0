//! How an application introduces itself: as it should, after a detour, or with something that must be refused.
//!
//! Always true: an application that must be refused gets a known error text, and is never let in.
//! Not here: its requests after the login (`speech`).

use protocol::server::login::Identity;

use crate::plan::{Person, Proof};
use crate::sim::dice::Dice;

/// How an application introduces itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guise {
    /// With its own user, database and password.
    Own,
    /// It asks for this kind of encryption first, and continues in plain text if that is not offered.
    Encrypting(u32),
    /// It asks for encryption and sends the startup packet before the answer.
    Impatient,
    /// It asks for a later minor version of the protocol, and has an unknown `_pq_.` option.
    Newer,
    /// It uses a wrong password.
    OtherPassword,
    /// It answers the password request with a query.
    WrongMessage,
    /// Its user is unknown.
    Nobody,
    /// Its database is unknown.
    NoDatabase,
    /// It is not an administrator and wants to use the admin console.
    Curious,
    /// It has an unsupported startup parameter or option.
    OddParameter,
    /// Its value of the parameter `replication` is invalid.
    Replica,
    /// It speaks version 2 of the protocol.
    Old,
    /// It speaks HTTP.
    Web,
    /// It begins with a TLS handshake, without an `SSLRequest`.
    Tls,
    /// It sends nothing.
    Silent,
    /// It asks for one of the databases that nobody may use.
    Misled(u8),
    /// It uses the password that its user has on another host.
    OtherHost(u8),
    /// It uses the password that its user had before.
    OldPassword,
    /// The user ID of its Unix socket belongs to another system user.
    Impostor,
}

impl Guise {
    /// Draws a guise for this person.
    pub(crate) fn draw(dice: &mut Dice, person: &Person) -> Self {
        let guise = dice.pick(&[
            Self::Encrypting(SSL_REQUEST),
            Self::Encrypting(GSS_REQUEST),
            Self::Impatient,
            Self::Newer,
            Self::OtherPassword,
            Self::WrongMessage,
            Self::Nobody,
            Self::NoDatabase,
            Self::Curious,
            Self::OddParameter,
            Self::Replica,
            Self::Old,
            Self::Web,
            Self::Tls,
            Self::Silent,
        ]);
        match guise {
            Self::OtherPassword | Self::WrongMessage if person.proof == Proof::None => Self::Own,
            Self::OtherPassword | Self::WrongMessage | Self::Nobody if person.is_proof_unsure => Self::Own,
            Self::Curious | Self::Nobody if person.is_operator() => Self::Own,
            Self::NoDatabase if person.knows_any_database => Self::Own,
            _ => guise,
        }
    }

    /// Returns the error texts with one of which the application must be refused; an empty list means that it gets no
    /// error at all.
    pub(crate) fn refusal(self, proof: Proof) -> Option<&'static [&'static str]> {
        Some(match self {
            Self::Own | Self::Encrypting(_) | Self::Newer => return None,
            Self::Impatient => &["received unencrypted data after"],
            Self::OtherPassword | Self::OtherHost(_) | Self::OldPassword => match proof {
                Proof::Scram => &["SASL authentication failed"],
                _ => &["password authentication failed"],
            },
            Self::Nobody => match proof {
                Proof::None => &["\"trust\" authentication failed"],
                Proof::Scram => &["SASL authentication failed"],
                Proof::Password => &["password authentication failed"],
            },
            Self::WrongMessage => &["unknown pkt"],
            Self::Misled(_) => &[],
            Self::Impostor => &["unix socket login rejected"],
            Self::NoDatabase => &["no such database: "],
            Self::Curious => &["not allowed"],
            Self::OddParameter => &["unsupported startup parameter: odd", "unsupported options startup parameter"],
            Self::Replica => &["invalid value for parameter \"replication\": \"perhaps\""],
            Self::Old => &["old V2 protocol not supported"],
            Self::Web => &["bad packet header", "invalid startup packet layout"],
            Self::Tls | Self::Silent => &[],
        })
    }

    /// Returns whether an application in this guise can use TLS as usual.
    pub(crate) fn can_be_encrypted(self) -> bool {
        !matches!(self, Self::Encrypting(_) | Self::Impatient | Self::Tls | Self::Silent)
    }

    /// Changes the identity in the startup packet to fit the guise.
    pub(crate) fn dress(self, identity: &mut Identity) {
        match self {
            Self::OtherPassword => identity.secret = std::sync::Arc::new(auth::Secret::parse("mistaken")),
            Self::Nobody => identity.user = "nobody".into(),
            Self::NoDatabase => identity.database = "nowhere".into(),
            Self::Curious => identity.database = "pgbouncer".into(),
            // Streams have `options` of their own already; other unknown parameters would be settings that follow the
            // client.
            Self::OddParameter => {
                let is_stream = identity.parameters.iter().any(|(name, _)| name == "replication");
                let (name, value) = if is_stream { ("odd", "1") } else { ("options", "-d 5") };
                identity.parameters.push((name.into(), value.into()));
            }
            Self::Replica => identity.parameters.push(("replication".into(), "perhaps".into())),
            Self::Newer => identity.parameters.push(("_pq_.odd".into(), "1".into())),
            _ => {}
        }
    }

    /// Changes the bytes of a usual startup packet to fit the guise.
    pub(crate) fn disguise(self, startup: &mut Vec<u8>) {
        match self {
            Self::Impatient => drop(startup.splice(..0, encryption_request(SSL_REQUEST))),
            Self::Newer => startup[7] = 2,
            Self::Old => startup[5] = 2,
            Self::Web => *startup = b"GET / HTTP/1.1\r\nHost: pooler\r\n\r\n".to_vec(),
            Self::Silent => startup.clear(),
            _ => {}
        }
    }
}

/// An `SSLRequest` or `GSSENCRequest`.
pub(crate) fn encryption_request(code: u32) -> Vec<u8> {
    [8, code].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// The request codes of `SSLRequest` and `GSSENCRequest` in `pqcomm.h`.
pub(crate) const SSL_REQUEST: u32 = 80_877_103;
pub(crate) const GSS_REQUEST: u32 = 80_877_104;
