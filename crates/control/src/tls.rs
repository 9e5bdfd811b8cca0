//! The TLS configuration for both legs, read from the files that the settings name.
//!
//! Always true: an error names the file it is in, and never quotes a byte of a key; the configuration is replaced as a
//! whole or not at all.
//! Not here: parsing the files (`reactor::tls`), when they are read (`boot`, `reload`).

use std::sync::Arc;

use config::{AuthType, Settings, TlsMode};
use reactor::tls::{Check, Demand, DemandParts, Offer, OfferParts, TermsText};
use worker::letters::TlsTerms;

use crate::source::{FileReader, words_of};

/// Reads the TLS configuration.
///
/// # Errors
/// The errors of each leg; the texts are lines for the log.
pub fn read_tls(settings: &Settings, files: &FileReader) -> Result<TlsTerms, Vec<String>> {
    match (offer(settings, files), demand(settings, files)) {
        (Ok(offer), Ok((demand, demand_parts))) => {
            Ok(TlsTerms { offer: offer.map(Arc::new), demand: demand.map(Arc::new), demand_parts })
        }
        (offer, demand) => {
            let wrong = offer.err().into_iter().chain(demand.err()).flatten();
            Err(wrong.map(|why| format!("TLS setup failed: {why}")).collect())
        }
    }
}

fn offer(settings: &Settings, files: &FileReader) -> Result<Option<Offer>, Vec<String>> {
    let mode = settings.client_tls_sslmode;
    if settings.auth_type == AuthType::Cert {
        if mode != TlsMode::VerifyFull {
            return Err(vec!["auth_type = cert requires client_tls_sslmode = verify-full".to_owned()]);
        }
        if settings.client_tls_ca_file.is_none() {
            return Err(vec!["auth_type = cert requires client_tls_ca_file".to_owned()]);
        }
    }
    if mode == TlsMode::Disable {
        return Ok(None);
    }
    let (Some(certificate_path), Some(key_path)) = (&settings.client_tls_cert_file, &settings.client_tls_key_file)
    else {
        let text = "To allow TLS connections from clients, client_tls_key_file and client_tls_cert_file must be set.";
        return Err(vec![text.to_owned()]);
    };
    let authorities = read_if_set("client_tls_ca_file", settings.client_tls_ca_file.as_ref(), files);
    let (certificate, key) = both("client", certificate_path, key_path, files, authorities.as_ref().err())?;
    let authorities = authorities.map_err(|why| vec![why])?;
    let parts = OfferParts {
        certificate: &certificate,
        key: &key,
        authorities: authorities.as_deref(),
        demands_certificate: matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyFull),
        terms: TermsText {
            protocols: &settings.client_tls_protocols,
            ciphers: &settings.client_tls_ciphers,
            suites: settings.client_tls13_ciphers.as_deref(),
            curves: &settings.client_tls_ecdhcurve,
        },
    };
    Offer::new(&parts).map(Some).map_err(|why| vec![format!("client_tls_*: {why}")])
}

/// The TLS requirements for servers, if any, and the bytes that they were made from.
type MadeOf<T> = (Option<T>, Arc<[u8]>);

/// Returns the demand and the bytes that it was made from.
fn demand(settings: &Settings, files: &FileReader) -> Result<MadeOf<Demand>, Vec<String>> {
    let mode = settings.server_tls_sslmode;
    if mode == TlsMode::Disable {
        return Ok((None, Arc::default()));
    }
    let check = match mode {
        TlsMode::Disable | TlsMode::Allow | TlsMode::Prefer | TlsMode::Require => Check::Nothing,
        TlsMode::VerifyCa => Check::Chain,
        TlsMode::VerifyFull => Check::ChainAndName,
    };
    let authorities = match read_if_set("server_tls_ca_file", settings.server_tls_ca_file.as_ref(), files) {
        Ok(None) if check != Check::Nothing => systems_authorities().map(Some).ok_or_else(|| NO_AUTHORITIES.to_owned()),
        given => given,
    };
    let own = match (&settings.server_tls_cert_file, &settings.server_tls_key_file) {
        (Some(certificate), Some(key)) => Some(both("server", certificate, key, files, authorities.as_ref().err())?),
        (None, None) => None,
        _ => return Err(vec!["server_tls_key_file and server_tls_cert_file need each other".to_owned()]),
    };
    let authorities = authorities.map_err(|why| vec![why])?;
    let parts = DemandParts {
        check,
        authorities: authorities.as_deref(),
        own: own.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice())),
        terms: TermsText {
            protocols: &settings.server_tls_protocols,
            ciphers: &settings.server_tls_ciphers,
            suites: settings.server_tls13_ciphers.as_deref(),
            curves: "auto",
        },
    };
    let demand = Demand::new(&parts).map_err(|why| vec![format!("server_tls_*: {why}")])?;
    if demand.is_none() && mode.forbids_clear_text() {
        return Err(vec![format!("none of the protocols is available: {}", settings.server_tls_protocols)]);
    }
    Ok((demand, all_of(settings, authorities.as_deref(), own.as_ref().map(|(certificate, _)| certificate.as_slice()))))
}

/// Reads the certificate and the key of a leg. The error lists everything that cannot be read, with the error in
/// `before`.
fn both(
    leg: &str,
    certificate: &str,
    key: &str,
    files: &FileReader,
    before: Option<&String>,
) -> Result<(Vec<u8>, Vec<u8>), Vec<String>> {
    let certificate = read(&format!("{leg}_tls_cert_file"), certificate, files);
    let key = read(&format!("{leg}_tls_key_file"), key, files);
    match (certificate, key, before) {
        (Ok(certificate), Ok(key), None) => Ok((certificate, key)),
        (certificate, key, before) => {
            Err([certificate.err(), key.err(), before.cloned()].into_iter().flatten().collect())
        }
    }
}

/// Returns the bytes that a demand is made from, to detect a change after a reload.
fn all_of(settings: &Settings, authorities: Option<&[u8]>, certificate: Option<&[u8]>) -> Arc<[u8]> {
    let suites = settings.server_tls13_ciphers.as_deref().unwrap_or_default();
    let mode = format!("{:?}", settings.server_tls_sslmode);
    let texts = [&mode, &settings.server_tls_protocols, &settings.server_tls_ciphers, suites].map(str::as_bytes);
    let files = [authorities.unwrap_or_default(), certificate.unwrap_or_default()];
    texts.into_iter().chain(files).collect::<Vec<_>>().join(&b"\0"[..]).into()
}

fn read(setting: &str, path: &str, files: &FileReader) -> Result<Vec<u8>, String> {
    files.read(path).map_err(|error| format!("{setting}: failed to open {path}: {}", words_of(&error)))
}

fn read_if_set(setting: &str, path: Option<&String>, files: &FileReader) -> Result<Option<Vec<u8>>, String> {
    path.map(|path| read(setting, path, files)).transpose()
}

/// Returns the system's trusted CA certificates, for settings that name none.
pub(crate) fn systems_authorities() -> Option<Vec<u8>> {
    SYSTEMS_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok())
}

const NO_AUTHORITIES: &str = "server certificates are to be verified, but server_tls_ca_file is not set";

/// The system's CA bundles of Debian, Red Hat and Alpine.
const SYSTEMS_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read_tls(settings: &Settings) -> Result<TlsTerms, Vec<String>> {
        super::read_tls(settings, &FileReader::from_disk())
    }

    fn refused(settings: &Settings) -> String {
        read_tls(settings).expect_err("refused").join("; ")
    }

    #[test]
    fn what_is_switched_off_needs_no_file() {
        let settings = Settings {
            server_tls_sslmode: TlsMode::Disable,
            client_tls_cert_file: Some("/nowhere/a.crt".to_owned()),
            server_tls_ca_file: Some("/nowhere/ca.crt".to_owned()),
            ..Settings::default()
        };
        let terms = read_tls(&settings).expect("nothing to read");
        assert!(terms.offer.is_none() && terms.demand.is_none());
    }

    #[test]
    fn servers_are_asked_by_default() {
        assert!(read_tls(&Settings::default()).expect("no file").demand.is_some());
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_what_the_system_says() {
        let settings = Settings {
            client_tls_sslmode: TlsMode::Require,
            client_tls_cert_file: Some("/nowhere/a.crt".to_owned()),
            client_tls_key_file: Some("/nowhere/a.key".to_owned()),
            ..Settings::default()
        };
        let text = "TLS setup failed: client_tls_cert_file: failed to open /nowhere/a.crt: No such file or directory; \
                    TLS setup failed: client_tls_key_file: failed to open /nowhere/a.key: No such file or directory";
        assert_eq!(refused(&settings), text);
        let both = Settings { server_tls_ca_file: Some("/nowhere/ca.crt".to_owned()), ..settings };
        assert!(refused(&both).contains("a.key") && refused(&both).contains("server_tls_ca_file"), "of both legs");
    }

    #[test]
    fn clients_cannot_be_offered_what_is_not_there() {
        let settings = Settings { client_tls_sslmode: TlsMode::Allow, ..Settings::default() };
        assert!(refused(&settings).contains("client_tls_key_file and client_tls_cert_file must be set"));
        let settings = Settings { server_tls_cert_file: Some("/nowhere/a.crt".to_owned()), ..Settings::default() };
        assert!(refused(&settings).contains("need each other"));
    }

    #[test]
    fn logins_by_certificate_need_certificates_that_are_verified() {
        let settings = Settings { auth_type: AuthType::Cert, ..Settings::default() };
        assert!(refused(&settings).ends_with("auth_type = cert requires client_tls_sslmode = verify-full"));
        let settings = Settings { client_tls_sslmode: TlsMode::VerifyFull, ..settings };
        assert!(refused(&settings).ends_with("auth_type = cert requires client_tls_ca_file"));
    }

    #[test]
    fn protocols_that_nobody_speaks_end_in_clear_text_only_where_that_is_allowed() {
        let old = |server_tls_sslmode| Settings {
            server_tls_sslmode,
            server_tls_protocols: "tlsv1.0".to_owned(),
            ..Settings::default()
        };
        assert!(read_tls(&old(TlsMode::Prefer)).expect("clear text").demand.is_none());
        assert!(refused(&old(TlsMode::Require)).contains("none of the protocols is available: tlsv1.0"));
        let unknown = Settings { server_tls13_ciphers: Some("unknown".to_owned()), ..Settings::default() };
        assert!(refused(&unknown).contains("failed to set the TLSv1.3 cipher suites: unknown suite unknown"));
    }

    #[test]
    fn a_demand_is_another_one_when_a_setting_of_it_is() {
        let parts = |settings: &Settings| read_tls(settings).expect("good terms").demand_parts;
        let usual = parts(&Settings::default());
        assert_eq!(usual, parts(&Settings::default()));
        assert_ne!(usual, parts(&Settings { server_tls_sslmode: TlsMode::Allow, ..Settings::default() }));
        let protocols = "tlsv1.3".to_owned();
        assert_ne!(usual, parts(&Settings { server_tls_protocols: protocols, ..Settings::default() }));
    }
}
