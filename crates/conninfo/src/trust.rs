//! Whose certificates a connection trusts, as `sslmode` and `sslrootcert` say it.
//!
//! Always true: the modes mean what they mean in libpq since 16, with two exceptions. A file that is named for `require` has to be there, where libpq
//! would go on unverified. `prefer` never verifies, where libpq goes on in clear if a file is there that does not verify. A file that verifies
//! nothing is not read.
//! Not here: the handshake, whether the other side has to speak TLS (whoever connects).

use std::path::Path;

use reactor::tls::Check;
use tokio_postgres::config::SslMode;

use crate::{Secure, clean};

/// Which certificates will do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Any.
    Any,
    /// Those that an authority of this file has signed.
    File(Check, String),
    /// Those that an authority of this file has signed if the file is there, or else any.
    FileIfThere(String),
    /// Those that an authority of the operating system has signed, and that name the host.
    System,
}

impl Trust {
    /// What a mode and a file mean; `home` is the home directory of the user.
    ///
    /// # Errors
    /// The mode is unknown, or does not fit the authorities.
    pub fn read(mode: Option<&str>, root_cert: Option<&str>, home: Option<&str>) -> Result<(SslMode, Self), String> {
        if root_cert == Some(SYSTEM) {
            return match mode {
                None | Some("verify-full") => Ok((SslMode::Require, Self::System)),
                Some(mode) => Err(clean(&format!(
                    "sslmode={mode} is too weak for sslrootcert=system; say sslmode=verify-full, or leave it out"
                ))),
            };
        }
        let in_home = || home.map(|home| format!("{home}/{IN_HOME}"));
        let verified = |check: Check| match root_cert.map(str::to_owned).or_else(in_home) {
            Some(path) => Ok((SslMode::Require, Self::File(check, path))),
            None => Err("sslmode asks for a certificate to be verified: sslrootcert has to name a file of authorities"
                .to_owned()),
        };
        match mode {
            None | Some("prefer" | "allow") => Ok((SslMode::Prefer, Self::Any)),
            Some("disable") => Ok((SslMode::Disable, Self::Any)),
            Some("require") if root_cert.is_some() => verified(Check::Chain),
            Some("require") => Ok((SslMode::Require, in_home().map_or(Self::Any, Self::FileIfThere))),
            Some("verify-ca") => verified(Check::Chain),
            Some("verify-full") => verified(Check::ChainAndName),
            Some(other) => Err(clean(&format!("invalid sslmode: {other}"))),
        }
    }

    /// What TLS with a host needs.
    ///
    /// # Errors
    /// The file of authorities is not there or cannot be read, or the host is no valid name for a certificate.
    pub fn secure(&self, host: &str) -> Result<Secure, String> {
        // In the home directory of somebody else there is none, as for libpq. A named file that cannot be looked at may be there: reading
        // it fails then.
        let is_optional = matches!(self, Self::FileIfThere(_));
        let has = |path: &str| Path::new(path).try_exists().unwrap_or(!is_optional);
        let named = std::env::var("SSL_CERT_FILE").ok().filter(|path| !path.is_empty());
        let (check, file) = self.settle(&has, named)?;
        Secure::new(check, file.as_deref(), host)
    }

    /// How much is checked, by which file. `named` is the file that takes the place of the system's.
    fn settle(&self, has: &dyn Fn(&str) -> bool, named: Option<String>) -> Result<(Check, Option<String>), String> {
        match self {
            Self::Any => Ok((Check::Nothing, None)),
            Self::FileIfThere(path) if has(path) => Ok((Check::Chain, Some(path.clone()))),
            Self::FileIfThere(_) => Ok((Check::Nothing, None)),
            Self::File(check, path) if has(path) => Ok((*check, Some(path.clone()))),
            Self::File(_, path) => Err(clean(&format!(
                "the file of authorities {path} does not exist; name one by sslrootcert, or say sslrootcert=system"
            ))),
            Self::System => Ok((Check::ChainAndName, Some(of_system(has, named)?))),
        }
    }
}

/// The file of the authorities of the operating system, or the one that is `named` in its place.
fn of_system(has: &dyn Fn(&str) -> bool, named: Option<String>) -> Result<String, String> {
    let own = || SYSTEMS.into_iter().find(|path| has(path)).map(str::to_owned);
    named.or_else(own).ok_or_else(|| "this system has no file of authorities; name one by SSL_CERT_FILE".to_owned())
}

/// The word for the authorities of the operating system.
const SYSTEM: &str = "system";
/// libpq's file of authorities, in the home directory.
const IN_HOME: &str = ".postgresql/root.crt";
/// Where distributions keep their authorities.
const SYSTEMS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether TLS is required, how much is checked, and by which file; the only files are those of `FILES`.
    fn meant(mode: &str, root_cert: &str) -> Result<(SslMode, Check, String), String> {
        let (mode, root_cert) = [mode, root_cert].map(|text| Some(text).filter(|text| !text.is_empty())).into();
        let (mode, trust) = Trust::read(mode, root_cert, Some("/home"))?;
        let (check, file) = trust.settle(&|path| FILES.contains(&path), None)?;
        Ok((mode, check, file.unwrap_or_default()))
    }

    const FILES: [&str; 3] = ["/ca", "/home/.postgresql/root.crt", SYSTEMS[1]];

    #[test]
    fn modes_mean_what_they_mean_in_libpq() {
        use Check::{Chain, ChainAndName, Nothing};
        use SslMode::{Disable, Prefer, Require};
        let own = FILES[1];
        for (mode, root_cert, expected) in [
            ("", "", (Prefer, Nothing, "")),
            ("", "/none", (Prefer, Nothing, "")),
            ("prefer", "/none", (Prefer, Nothing, "")),
            ("allow", "/ca", (Prefer, Nothing, "")),
            ("disable", "/none", (Disable, Nothing, "")),
            ("require", "", (Require, Chain, own)),
            ("require", "/ca", (Require, Chain, "/ca")),
            ("verify-ca", "", (Require, Chain, own)),
            ("verify-ca", "/ca", (Require, Chain, "/ca")),
            ("verify-full", "", (Require, ChainAndName, own)),
            ("verify-full", "/ca", (Require, ChainAndName, "/ca")),
            ("", "system", (Require, ChainAndName, SYSTEMS[1])),
            ("verify-full", "system", (Require, ChainAndName, SYSTEMS[1])),
        ] {
            let found = meant(mode, root_cert).expect("a meaning");
            assert_eq!((found.0, found.1, found.2.as_str()), expected, "sslmode={mode} sslrootcert={root_cert}");
        }
        for (mode, root_cert, words) in [
            ("require", "/none", "/none does not exist"),
            ("verify-ca", "/none", "/none does not exist"),
            ("verify-full", "/none", "/none does not exist"),
            ("disable", "system", "sslmode=disable is too weak"),
            ("prefer", "system", "sslmode=prefer is too weak"),
            ("require", "system", "sslmode=require is too weak"),
            ("verify-ca", "system", "sslmode=verify-ca is too weak"),
            ("sure", "", "invalid sslmode: sure"),
        ] {
            let why = meant(mode, root_cert).expect_err("a refusal");
            assert!(why.contains(words), "sslmode={mode} sslrootcert={root_cert}: {why}");
        }
    }

    #[test]
    fn without_a_file_only_require_goes_on() {
        let settled = |mode: &str, home: Option<&str>| {
            Trust::read(Some(mode), None, home).and_then(|(_, trust)| trust.settle(&|_| false, None))
        };
        assert_eq!(settled("require", Some("/home")), Ok((Check::Nothing, None)));
        assert_eq!(settled("require", None), Ok((Check::Nothing, None)));
        for mode in ["verify-ca", "verify-full"] {
            assert!(settled(mode, Some("/home")).expect_err("no file").contains("/home/.postgresql/root.crt"));
            assert!(settled(mode, None).expect_err("no file").contains("sslrootcert"));
        }
        let system = Trust::System.settle(&|_| false, Some("/named".to_owned()));
        assert_eq!(system, Ok((Check::ChainAndName, Some("/named".to_owned()))));
        assert!(Trust::System.settle(&|_| false, None).expect_err("no file").contains("SSL_CERT_FILE"));
    }
}
