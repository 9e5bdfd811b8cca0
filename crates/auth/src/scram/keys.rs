//! The secrets and keys that SCRAM derives from a password, for the side that checks a login and the side that logs in.
//!
//! Always true: `Debug` shows no key and no salt.
//! Not here: the messages of a login (`server`, `client`).

use std::fmt;

use subtle::Choice;

use super::maths::{self, Key};
use super::message;
use crate::Password;

/// PostgreSQL's SCRAM secret: enough to check a login, not enough to log in. Display is its textual form, which belongs
/// in `pg_authid` and the auth file only.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramSecret {
    /// The number of iterations; at least 1.
    pub iterations: u32,
    /// The salt; 16 bytes in PostgreSQL.
    pub salt: Box<[u8]>,
    /// The digest of the client key.
    pub stored_key: [u8; 32],
    /// The key with which the server signs.
    pub server_key: [u8; 32],
}

impl ScramSecret {
    /// Derives the secret of a password as `CREATE ROLE` does. Slow by design: about a millisecond for 4096 iterations.
    /// 0 iterations count as 1.
    #[must_use]
    pub fn derive(password: impl AsRef<[u8]>, salt: &[u8], iterations: u32) -> Self {
        let keys = ScramKeys::derive(password.as_ref(), salt, iterations);
        Self {
            iterations: iterations.max(1),
            salt: salt.into(),
            stored_key: maths::hash(&keys.client_key),
            server_key: keys.server_key,
        }
    }

    /// Parses `SCRAM-SHA-256$iterations:salt$stored key:server key` (`parse_scram_secret` of `auth-scram.c`).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (cost, keys) = text.strip_prefix(super::MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = cost.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Self {
            iterations: message::number(iterations.as_bytes()).and_then(counted)?,
            salt: maths::from_base64(salt.as_bytes())?.into(),
            stored_key: maths::key_from_base64(stored_key.as_bytes())?,
            server_key: maths::key_from_base64(server_key.as_bytes())?,
        })
    }

    /// The secret of a hashed password.
    #[must_use]
    pub fn of(salted: &SaltedPassword) -> Self {
        Self {
            iterations: salted.iterations.max(1),
            salt: salted.salt.clone(),
            stored_key: maths::hash(&salted.keys.client_key),
            server_key: salted.keys.server_key,
        }
    }

    /// The derivation that is needed to check a cleartext password against this secret.
    pub(crate) fn derivation(&self, password: Password) -> Derivation {
        Derivation { password, salt: self.salt.clone(), iterations: self.iterations }
    }

    /// Whether a login with these keys succeeds where this secret is stored.
    #[must_use]
    pub fn is_opened_by(&self, keys: &ScramKeys) -> bool {
        self.is_of_keys(keys).into()
    }

    /// Whether this is the secret of a hashed password.
    pub(crate) fn is_of(&self, salted: &SaltedPassword) -> Choice {
        // Salt and iterations need not be compared, because other ones give other keys.
        self.is_of_keys(&salted.keys)
    }

    fn is_of_keys(&self, keys: &ScramKeys) -> Choice {
        maths::equal(&keys.server_key, &self.server_key)
            & maths::equal(&maths::hash(&keys.client_key), &self.stored_key)
    }
}

impl fmt::Display for ScramSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored_key, server_key] = [&*self.salt, &self.stored_key, &self.server_key].map(maths::base64);
        write!(f, "{}${}:{salt}${stored_key}:{server_key}", super::MECHANISM, self.iterations)
    }
}

impl fmt::Debug for ScramSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramSecret").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The SCRAM keys of a password: enough to log in to any server that stores the same secret (same salt, same iterations).
/// SCRAM pass-through is based on this: the server side recovers the client key from a client's proof.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// The key that the client proves to know.
    pub client_key: [u8; 32],
    /// The key that the server proves to know.
    pub server_key: [u8; 32],
}

impl ScramKeys {
    pub(super) fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let salted: Key = maths::salted_password(password, salt, iterations);
        Self { client_key: maths::hmac(&salted, &[b"Client Key"]), server_key: maths::hmac(&salted, &[b"Server Key"]) }
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(..)")
    }
}

/// The slow part of a login with a password, to be run where it delays nothing else: about a millisecond for PostgreSQL's
/// 4096 iterations.
#[derive(Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The password.
    pub password: Password,
    /// The salt.
    pub salt: Box<[u8]>,
    /// The number of iterations; 0 counts as 1.
    pub iterations: u32,
}

impl Derivation {
    /// Hashes the password.
    #[must_use]
    pub fn run(self) -> SaltedPassword {
        let Self { password, salt, iterations } = self;
        let keys = ScramKeys::derive(password.as_bytes(), &salt, iterations);
        SaltedPassword { password, salt, iterations, keys }
    }
}

impl fmt::Debug for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derivation").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The result of a [`Derivation`]. The caller keeps it from one login to the next, so that a server with one secret for us
/// costs one derivation. It can be used only for its own password, salt and iterations.
#[derive(Clone)]
pub struct SaltedPassword {
    password: Password,
    salt: Box<[u8]>,
    iterations: u32,
    keys: ScramKeys,
}

impl SaltedPassword {
    pub(super) fn serves(&self, password: &Password, salt: &[u8], iterations: u32) -> bool {
        self.password == *password && *self.salt == *salt && self.iterations == iterations
    }

    pub(super) fn keys(&self) -> &ScramKeys {
        &self.keys
    }
}

impl fmt::Debug for SaltedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaltedPassword").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// Checks the number of iterations, which PostgreSQL stores in an `int`.
fn counted(iterations: u64) -> Option<u32> {
    (1..=i32::MAX as u64).contains(&iterations).then_some(iterations as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by PostgreSQL 15: CREATE ROLE .. PASSWORD .., in a UTF-8 database. From the second on they cover the cases of
    // SASLprep: characters mapped to nothing, composed, prohibited or unassigned, right-to-left text refused or accepted, an
    // empty result, characters mapped to a space.
    const MADE_BY_POSTGRESQL: [(&str, &str); 13] = [
        (
            "foo",
            "SCRAM-SHA-256$4096:QiIHsHKmwQ3+uoHhU2AoXw==$\
             qeGivRNqFcMzpdQ40C/GZcsOGP+5GeQPesGpO2WQQXA=:\
             9OCAaHSCBKJy2GNmmoVelxtzT5EYVATLw4yJES+eS3Q=",
        ),
        (
            "I\u{ad}X",
            "SCRAM-SHA-256$4096:SStPela52AyvdFUIe9mrfQ==$\
             dl+pdsYHV19bYOGaL3zGSvrm2TOZRZwJnmEvyE5bXA8=:\
             qlahBOIGYYBNVVn/NRncJBL3PJrOpbH5TzYCScYoG/w=",
        ),
        (
            "\u{aa}\u{2168}",
            "SCRAM-SHA-256$4096:di+eaLTR5OKj/MI5K+Ln+A==$\
             Z8IIP2E5QgGZzp3BWJJcC9OH3BPd6hgdEv/j5oAnkwQ=:\
             xGrpwxBPwOc9g7ZjmMpf/9E3FpL7AnnMG/3puGQRbEg=",
        ),
        (
            "\u{aa}\u{7}",
            "SCRAM-SHA-256$4096:7kY9v78g77tEKjnRBbLo1w==$\
             1D1iI2/7leQcj1WJ+8hgZMWi8VTmZaAT1vcWaG0/+C0=:\
             TFha8GJkPPMeokmDN/WQL/lEYkaXDwZ8eVv+Nh4VrzE=",
        ),
        (
            "\u{221}",
            "SCRAM-SHA-256$4096:liRht4pW2JvMuxx0GImmkQ==$\
             7vlq99Z0w3YZ5OH3bABkn8/qL5vHCqvkmvgnVMmgf7A=:\
             we8hjlQ53vkY+vJFJvW/D2tmrs/kmLzFD83vl5mltAc=",
        ),
        (
            "\u{627}1",
            "SCRAM-SHA-256$4096:Qf0gNtsvw4pbWkxgQIEe0g==$\
             cO7gFWaN0KHK/ZxG4zXq+ZCZ7Qz80brAXLap6eEe8r4=:\
             RG6xp0FFSJAwGPF2tbzQCxYIjX7H1vhAzLJiTAAET+E=",
        ),
        (
            "\u{627}\u{628}",
            "SCRAM-SHA-256$4096:gLpG73zLhMrexL+OPJb5NQ==$\
             ENtSH3ybeJ5PubMXjrPe8PB3I248QbQIVe9zfuleFmU=:\
             HxEnFF/O+ultlYAKThPmMj0dPVmcGKEQcUq8D/dM7pg=",
        ),
        (
            "\u{ad}",
            "SCRAM-SHA-256$4096:f0mnBAwhQNdw2LI69fKqzg==$\
             PWEyHtRxiFv5Pg3hinDixsLBL49lBMWVzHvleokLktM=:\
             nXnnSqRAUndu1EpZWEgyQ8pYjGmRRz7q/ShTjjVnv5Y=",
        ),
        (
            "\u{200b}x",
            "SCRAM-SHA-256$4096:jGimYrbUT/lcX52IE2mnYA==$\
             c3A/sHQR3LhNT+SyP1onZdkACteTF2cF/LkdrWJaHx0=:\
             TbT4kbHbjFZSjcEs6D2Qrc3P6wJ/KWwebl4bEoApNGQ=",
        ),
        (
            "p\u{e4}ssw\u{f6}rd",
            "SCRAM-SHA-256$4096:o3lbcToVqUXmq2MwjSNDEA==$\
             7u9CSFzbVMalTLR5YEZ61g1yXfvf51xKDW5uPgat+AY=:\
             qnZbsby3/wC7QgVlq46DsnwGYYR31pFknTLSDcC7KTM=",
        ),
        (
            "a\u{301}\u{a0}b",
            "SCRAM-SHA-256$4096:qivZHw96rEjQgpxVoYWiAw==$\
             uMSOmOMuOYFTWxy3DRXLImnz0QjM2k/0wwDTui4qQ6E=:\
             EJdzwGQcjxltK4RjEvavi04X25ibaYJKTHe3yu+x+Ng=",
        ),
        (
            "\u{1f600}",
            "SCRAM-SHA-256$4096:nOPG46S+nxRKP29RtlOoeg==$\
             0OSI+Y5X4TBplu4G2xdwnYOWknZ2y99m6Gg/k/Z/laU=:\
             uRiLPpvHW+9+rHp1EHGFyed7M5uUZ8csdsR0Wykqs6c=",
        ),
        (
            "\u{1e9b}\u{323}",
            "SCRAM-SHA-256$4096:GryIP2MRlh3ZUEARaNYNCA==$\
             i8mEYibYaeP5jCO+JBxmRxupoS+JzPi/NTWTcGNAJQ4=:\
             w6ifgQJqmZCTZmOPoQRFA6Clsthxo1Vg69MfKgdgCfg=",
        ),
    ];

    #[test]
    fn a_secret_is_the_one_that_postgresql_makes_of_the_password() {
        for (password, text) in MADE_BY_POSTGRESQL {
            let made = ScramSecret::parse(text).expect("a secret");
            assert_eq!(ScramSecret::derive(password, &made.salt, made.iterations).to_string(), text, "{password:?}");
        }
    }

    fn derivation(password: &str, salt: &[u8], iterations: u32) -> Derivation {
        Derivation { password: Password::new(password).expect("not empty"), salt: salt.into(), iterations }
    }

    fn is_of(secret: &ScramSecret, password: &str) -> bool {
        secret.is_of(&secret.derivation(Password::new(password).expect("not empty")).run()).into()
    }

    #[test]
    fn a_secret_knows_its_password() {
        let secret = ScramSecret::derive("pencil", b"salt", 2);
        assert!(is_of(&secret, "pencil"));
        assert!(!is_of(&secret, "Pencil"));
        assert!(!bool::from(secret.is_of(&derivation("pencil", b"salt", 3).run())));
    }

    #[test]
    fn a_secret_of_a_hashed_password_is_the_one_that_is_derived_at_once() {
        for iterations in [0, 1, 2] {
            let hashed = ScramSecret::of(&derivation("pencil", b"salt", iterations).run());
            assert!(hashed == ScramSecret::derive("pencil", b"salt", iterations));
        }
    }

    #[test]
    fn one_wrong_key_spoils_a_secret() {
        let mut secret = ScramSecret::derive("pencil", b"salt", 2);
        secret.server_key[31] ^= 1;
        assert!(!is_of(&secret, "pencil"));
        let mut secret = ScramSecret::derive("pencil", b"salt", 2);
        secret.stored_key[0] ^= 1;
        assert!(!is_of(&secret, "pencil"));
    }

    #[test]
    fn a_salted_password_serves_what_it_was_made_of_only() {
        let password = |text| Password::new(text).expect("not empty");
        let salted = derivation("pencil", b"salt", 2).run();
        assert!(salted.serves(&password("pencil"), b"salt", 2));
        assert!(!salted.serves(&password("pencils"), b"salt", 2));
        assert!(!salted.serves(&password("pencil"), b"salz", 2));
        assert!(!salted.serves(&password("pencil"), b"salt", 3));
    }

    #[test]
    fn debug_shows_no_key_and_no_salt() {
        let secret = ScramSecret::derive("pencil", b"salt", 7);
        assert_eq!(format!("{secret:?}"), "ScramSecret { iterations: 7, .. }");
        assert_eq!(format!("{:?}", ScramKeys::derive(b"pencil", b"salt", 7)), "ScramKeys(..)");
        assert_eq!(format!("{:?}", derivation("pencil", b"salt", 7)), "Derivation { iterations: 7, .. }");
        let salted = derivation("pencil", b"salt", 7).run();
        assert_eq!(format!("{salted:?}"), "SaltedPassword { iterations: 7, .. }");
    }
}
