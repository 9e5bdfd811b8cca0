//! How an application comes to the door: as it should, on a detour, or with something that must be refused.
//!
//! Always true: who must be refused is told why, in known words, and is never let in.
//! Not here: what is said once it is in (`speech`).

use protocol::server::login::Identity;

use crate::plan::{Person, Proof};
use crate::sim::dice::Dice;

/// How it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guise {
    /// As itself.
    Own,
    /// It first asks for this kind of encryption, and does without if it is not offered.
    Encrypting(u32),
    /// It asks for encryption and does not wait for the answer.
    Impatient,
    /// It speaks a later minor version, with an option that nobody knows.
    Newer,
    /// It knows another password.
    OtherPassword,
    /// It answers the question for its password with a query.
    WrongMessage,
    /// Its name is unknown.
    Nobody,
    /// Its database is unknown.
    NoDatabase,
    /// It is no administrator and wants into the console.
    Curious,
    /// It has options that are not supported.
    OddParameter,
    /// It wants to replicate, in a word that means nothing.
    Replica,
    /// It speaks version 2 of the protocol.
    Old,
    /// It speaks another protocol.
    Web,
    /// It speaks TLS at once.
    Tls,
    /// It says nothing.
    Silent,
    /// It wants into one of the databases that nobody gets into.
    Misled(u8),
    /// It knows the password that its user has at another host.
    OtherHost(u8),
    /// It knows the password that its user had before.
    OldPassword,
    /// It is somebody else to the system.
    Impostor,
}

impl Guise {
    /// One for this person.
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

    /// What it must be told, if it must not be let in. No text is no word at all.
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

    /// Whether it can come under TLS like anybody else.
    pub(crate) fn can_be_encrypted(self) -> bool {
        !matches!(self, Self::Encrypting(_) | Self::Impatient | Self::Tls | Self::Silent)
    }

    /// Puts it on: who it says that it is.
    pub(crate) fn dress(self, identity: &mut Identity) {
        match self {
            Self::OtherPassword => identity.secret = std::sync::Arc::new(auth::Secret::parse("mistaken")),
            Self::Nobody => identity.user = "nobody".into(),
            Self::NoDatabase => identity.database = "nowhere".into(),
            Self::Curious => identity.database = "pgbouncer".into(),
            // Options are a stream's own affair, and other parameters are settings of a session that follows its client.
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

    /// Puts it on: what it says first, which was a usual startup packet.
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

/// A request for encryption of this kind.
pub(crate) fn encryption_request(code: u32) -> Vec<u8> {
    [8, code].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// A request for encryption by TLS, by GSSAPI: the codes of `pqcomm.h`.
pub(crate) const SSL_REQUEST: u32 = 80_877_103;
pub(crate) const GSS_REQUEST: u32 = 80_877_104;
