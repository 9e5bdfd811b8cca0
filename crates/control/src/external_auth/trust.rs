//! Which certificates of LDAP servers are accepted: as for every LDAP client of the system, `ldap.conf` and the
//! environment decide.
//!
//! Always true: certificates are checked unless TLS_REQCERT switches that off.
//! Not here: the conversation with a directory (`directory`).

use reactor::tls::{Check, Demand, DemandParts, TermsText};

use crate::source::words_of;
use crate::tls::systems_authorities;

/// Settings about certificates of LDAP servers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    /// `TLS_REQCERT`.
    request: Option<String>,
    /// `TLS_CACERT`.
    authorities: Option<String>,
}

/// Returns the TLS requirements for LDAP servers.
///
/// # Errors
/// A file cannot be read or used; the text is for the log.
pub(super) fn demand() -> Result<Demand, String> {
    let environment = |name: &str| std::env::var(name).ok();
    let file = match environment("LDAPCONF") {
        Some(path) => std::fs::read_to_string(path).unwrap_or_default(),
        None => CONFIGURATIONS.iter().find_map(|path| std::fs::read_to_string(path).ok()).unwrap_or_default(),
    };
    let said = Said {
        request: environment("LDAPTLS_REQCERT").or_else(|| option(&file, "TLS_REQCERT")),
        authorities: environment("LDAPTLS_CACERT").or_else(|| option(&file, "TLS_CACERT")),
    };
    let check = check(said.request.as_deref());
    let authorities = match (check, &said.authorities) {
        (Check::Nothing, _) => None,
        (_, Some(path)) => Some(
            std::fs::read(path)
                .map_err(|error| format!("TLS_CACERT of LDAP: failed to open {path}: {}", words_of(&error)))?,
        ),
        (_, None) => {
            Some(systems_authorities().ok_or("certificates of LDAP servers cannot be verified: no TLS_CACERT")?)
        }
    };
    let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
    let parts = DemandParts { check, authorities: authorities.as_deref(), own: None, terms };
    let demand = Demand::new(&parts).map_err(|why| format!("TLS with LDAP servers: {why}"))?;
    demand.ok_or_else(|| "TLS with LDAP servers: no protocol is left".to_owned())
}

fn check(request: Option<&str>) -> Check {
    match request.map(str::to_ascii_lowercase).as_deref() {
        Some("never" | "allow") => Check::Nothing,
        _ => Check::ChainAndName,
    }
}

/// Returns the last value of an option of `ldap.conf`.
fn option(file: &str, name: &str) -> Option<String> {
    let said = file.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once([' ', '\t']));
    let mut values = said.filter(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned());
    values.next_back()
}

/// The LDAP client configuration of Debian and of Red Hat.
const CONFIGURATIONS: [&str; 2] = ["/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_an_option_counts() {
        let file = "# TLS_CACERT /a\nBASE dc=x\nTLS_CACERT\t/b\ntls_cacert   /c d \nTLS_REQCERT never\n";
        assert_eq!(option(file, "TLS_CACERT").as_deref(), Some("/c d"));
        assert_eq!(option(file, "TLS_REQCERT").as_deref(), Some("never"));
        assert_eq!(option(file, "URI"), None);
    }

    #[test]
    fn certificates_are_checked_unless_they_need_not_be() {
        for (request, expected) in [
            (None, Check::ChainAndName),
            (Some("demand"), Check::ChainAndName),
            (Some("try"), Check::ChainAndName),
            (Some("Never"), Check::Nothing),
            (Some("allow"), Check::Nothing),
        ] {
            assert_eq!(check(request), expected, "{request:?}");
        }
    }
}
