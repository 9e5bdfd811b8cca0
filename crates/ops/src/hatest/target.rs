//! A connection string as what a connection needs: hosts, role, login, TLS.
//!
//! Always true: the string takes precedence over the environment; no error repeats a password.
//! Not here: reading the environment or a file, both of which are passed as functions; connecting (`connect`).

use std::time::Duration;

use conninfo::{Address, Split, Trust, clean, kept_password, pass_file};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};

/// The environment of the command.
pub(crate) struct Machine<'a> {
    /// Reads an environment variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file with passwords, unless others may read that file.
    pub(crate) passwords: &'a dyn Fn(&str) -> Option<String>,
    /// The system user.
    pub(crate) user: Option<String>,
}

/// What a session must be, in libpq's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

impl Wanted {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "any" => Self::Any,
            "read-write" => Self::ReadWrite,
            "read-only" => Self::ReadOnly,
            "primary" => Self::Primary,
            "standby" => Self::Standby,
            "prefer-standby" => Self::PreferStandby,
            _ => return None,
        })
    }

    /// Whether a session fits that is in recovery or not, and read-only or not.
    pub(crate) fn fits(self, is_in_recovery: bool, is_read_only: bool) -> bool {
        match self {
            Self::Any | Self::PreferStandby => true,
            Self::ReadWrite => !is_in_recovery && !is_read_only,
            Self::ReadOnly => is_in_recovery || is_read_only,
            Self::Primary => !is_in_recovery,
            Self::Standby => is_in_recovery,
        }
    }
}

/// A host of a target.
#[derive(Clone, Debug)]
pub(crate) struct HostOfTarget {
    /// Where it is.
    pub(crate) address: Address,
    /// The name that its certificate must have.
    pub(crate) name: String,
    /// Its login: user, password, database.
    pub(crate) login: Config,
}

/// Everything that a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The hosts, at least one.
    pub(crate) hosts: Vec<HostOfTarget>,
    /// What they must be.
    pub(crate) wanted: Wanted,
    /// Whether they are tried in random order.
    pub(crate) is_random: bool,
    /// How long an attempt at one host may take.
    pub(crate) connect_timeout: Duration,
    /// Whose certificates are trusted.
    pub(crate) trust: Trust,
    /// The kernel's limit for unacknowledged bytes, `tcp_user_timeout`.
    pub(crate) user_timeout: Option<Duration>,
}

impl Target {
    /// Reads a connection string.
    ///
    /// # Errors
    /// Says which value is invalid.
    pub(crate) fn read(conninfo: &str, connect_timeout: Duration, machine: &Machine<'_>) -> Result<Self, String> {
        let variable = |name: &str| (machine.variable)(name).filter(|value| !value.is_empty());
        let split = Split::of(conninfo, &OUR_KEYS);
        let config: Config = split.rest.parse().map_err(|error| mistake(&error))?;
        let wanted = split.value("target_session_attrs").unwrap_or("any");
        let wanted = Wanted::read(wanted).ok_or_else(|| unknown("target_session_attrs", wanted))?;
        let user_timeout = split
            .value("tcp_user_timeout")
            .map(|text| text.parse().map(Duration::from_millis).map_err(|_| unknown("tcp_user_timeout", text)));
        let said = |key: &str, name: &str| split.value(key).map(str::to_owned).or(variable(name));
        let root_cert = said("sslrootcert", "PGSSLROOTCERT").filter(|path| !path.is_empty());
        let mode = said("sslmode", "PGSSLMODE");
        let (mode, trust) = Trust::read(mode.as_deref(), root_cert.as_deref(), variable("HOME").as_deref())?;
        match said("channel_binding", "PGCHANNELBINDING").as_deref() {
            None | Some("prefer" | "disable") => {}
            Some("require") => return Err("channel_binding=require is not supported: logins bind no channel".into()),
            Some(other) => return Err(unknown("channel_binding", other)),
        }
        let user = config.get_user().map(str::to_owned).or(variable("PGUSER")).or(machine.user.clone());
        let user = user.ok_or("the system does not know our user; say user=")?;
        let database =
            config.get_dbname().map(str::to_owned).or(variable("PGDATABASE")).unwrap_or_else(|| user.clone());
        let mut login = config.clone();
        login.user(&user).dbname(&database).ssl_mode(mode);
        if login.get_application_name().is_none() {
            login.application_name(NAME);
        }
        if let (None, Some(password)) = (login.get_password(), variable("PGPASSWORD")) {
            login.password(password);
        }
        let kept = match login.get_password() {
            None => pass_file(&variable).and_then(|path| (machine.passwords)(&path)),
            Some(_) => None,
        };
        let mut hosts = hosts(&config, variable("PGHOST"), variable("PGPORT"), &login)?;
        for host in &mut hosts {
            let address = std::slice::from_ref(&host.address);
            let password = kept.as_ref().and_then(|lines| kept_password(lines, address, &database, &user));
            if let Some(password) = password {
                host.login.password(password);
            }
            // As in libpq, a unix socket is never encrypted.
            if matches!(host.address, Address::Socket { .. }) {
                host.login.ssl_mode(SslMode::Disable);
            }
        }
        Ok(Self {
            hosts,
            wanted,
            is_random: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            connect_timeout: config.get_connect_timeout().copied().unwrap_or(connect_timeout),
            trust,
            user_timeout: user_timeout.transpose()?.filter(|limit| !limit.is_zero()),
        })
    }
}

fn mistake(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    clean(&format!("{error}{source}"))
}

fn unknown(key: &str, value: &str) -> String {
    clean(&format!("invalid {key}: {value}"))
}

/// The hosts with their ports, as libpq pairs them.
fn hosts(
    config: &Config,
    from_environment: Option<String>,
    port: Option<String>,
    login: &Config,
) -> Result<Vec<HostOfTarget>, String> {
    let port = match port {
        None => PORT,
        Some(text) => text.parse().map_err(|_| format!("PGPORT is {text:?}, which is no port"))?,
    };
    let at = |host: &str, port: u16| (Address::at(host, port), host.to_owned());
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    let ports = config.get_ports();
    let port_of = |place: usize| if ports.len() == 1 { ports[0] } else { ports.get(place).copied().unwrap_or(port) };
    let found: Vec<(Address, String)> = match (count, from_environment) {
        (0, Some(names)) => names.split(',').map(|name| at(name, port_of(0))).collect(),
        (0, None) => vec![at(SOCKET_DIR, port_of(0))],
        _ if ports.len() > 1 && ports.len() != count => {
            return Err(format!("could not match {} port numbers to {count} hosts", ports.len()));
        }
        _ => (0..count)
            .map(|place| {
                let name = match config.get_hosts().get(place) {
                    Some(Host::Tcp(name)) => Some(name.clone()),
                    Some(Host::Unix(directory)) => Some(directory.to_string_lossy().into_owned()),
                    None => None,
                };
                let address = config.get_hostaddrs().get(place).map(ToString::to_string);
                let to = address.clone().or(name.clone()).unwrap_or_else(|| SOCKET_DIR.to_owned());
                (Address::at(&to, port_of(place)), name.unwrap_or(to))
            })
            .collect(),
    };
    Ok(found.into_iter().map(|(address, name)| HostOfTarget { address, name, login: login.clone() }).collect())
}

/// What the driver does not know, or measures in other units.
const OUR_KEYS: [&str; 5] = ["channel_binding", "sslmode", "sslrootcert", "target_session_attrs", "tcp_user_timeout"];
/// The `application_name` of this client.
const NAME: &str = "trunkline hatest";
/// PostgreSQL's port.
const PORT: u16 = 5432;
/// Debian's directory of unix sockets.
const SOCKET_DIR: &str = "/var/run/postgresql";

#[cfg(test)]
mod tests {
    use reactor::tls::Check;

    use super::*;

    fn read_with(conninfo: &str, environment: &[(&str, &str)], passwords: &str) -> Result<Target, String> {
        let find = |name: &str| environment.iter().find(|(known, _)| *known == name);
        let machine = Machine {
            variable: &|name| find(name).map(|(_, value)| (*value).to_owned()),
            passwords: &|path| (path == "/home/.pgpass").then(|| passwords.to_owned()),
            user: Some("me".to_owned()),
        };
        Target::read(conninfo, Duration::from_secs(5), &machine)
    }

    fn read(conninfo: &str) -> Target {
        read_with(conninfo, &[], "").expect("a target")
    }

    fn addresses(target: &Target) -> Vec<String> {
        target.hosts.iter().map(|host| host.address.name()).collect()
    }

    #[test]
    fn hosts_and_ports_are_paired_as_in_libpq() {
        assert_eq!(addresses(&read("host=a,b port=1")), ["a:1", "b:1"]);
        assert_eq!(addresses(&read("host=a,/run port=1,2")), ["a:1", "/run/.s.PGSQL.2"]);
        assert_eq!(addresses(&read("postgres://a,b:7/d")), ["a:5432", "b:7"]);
        assert_eq!(addresses(&read("user=x")), ["/var/run/postgresql/.s.PGSQL.5432"]);
        let by_address = read("host=db hostaddr=10.0.0.1");
        assert_eq!(
            (addresses(&by_address), by_address.hosts[0].name.as_str()),
            (vec!["10.0.0.1:5432".to_owned()], "db")
        );
        let environment = [("PGHOST", "e,f"), ("PGPORT", "9")];
        assert_eq!(addresses(&read_with("dbname=x", &environment, "").expect("a target")), ["e:9", "f:9"]);
        assert!(read_with("host=a,b,c port=1,2", &[], "").expect_err("ports").contains("2 port numbers to 3 hosts"));
    }

    #[test]
    fn the_role_is_one_of_libpqs() {
        assert_eq!(read("host=a").wanted, Wanted::Any);
        assert_eq!(read("host=a target_session_attrs=primary").wanted, Wanted::Primary);
        assert_eq!(read("postgres://a/d?target_session_attrs=prefer-standby").wanted, Wanted::PreferStandby);
        let text = read_with("host=a target_session_attrs=primry", &[], "").expect_err("a mistake");
        assert_eq!(text, "invalid target_session_attrs: primry");
        let fits = |wanted: Wanted| [(false, false), (false, true), (true, true)].map(|(a, b)| wanted.fits(a, b));
        assert_eq!(fits(Wanted::ReadWrite), [true, false, false]);
        assert_eq!(fits(Wanted::ReadOnly), [false, true, true]);
        assert_eq!(fits(Wanted::Primary), [true, true, false]);
        assert_eq!(fits(Wanted::Standby), [false, false, true]);
    }

    #[test]
    fn timeouts_are_in_libpqs_units() {
        let target = read("host=a connect_timeout=2 tcp_user_timeout=1500");
        assert_eq!((target.connect_timeout.as_secs(), target.user_timeout), (2, Some(Duration::from_millis(1500))));
        assert_eq!((read("host=a").connect_timeout.as_secs(), read("host=a").user_timeout), (5, None));
    }

    #[test]
    fn each_host_has_its_own_password() {
        let lines = "a:*:*:me:first\nb:*:*:me:second\n";
        let target = read_with("host=a,b", &[("HOME", "/home")], lines).expect("a target");
        let passwords: Vec<_> = target.hosts.iter().map(|host| host.login.get_password()).collect();
        assert_eq!(passwords, [Some(&b"first"[..]), Some(b"second")]);
        let told = read_with("host=a", &[("HOME", "/home"), ("PGPASSWORD", "x")], lines).expect("a target");
        assert_eq!(told.hosts[0].login.get_password(), Some(&b"x"[..]));
    }

    #[test]
    fn certificates_are_checked_as_the_string_or_the_environment_says() {
        let trust =
            |conninfo: &str, environment: &[(&str, &str)]| read_with(conninfo, environment, "").map(|t| t.trust);
        let chain = |path: &str| Ok(Trust::File(Check::Chain, path.to_owned()));
        assert_eq!(trust("postgres://a/?sslmode=require&sslrootcert=%2fa", &[("PGSSLROOTCERT", "/b")]), chain("/a"));
        assert_eq!(trust("host=a sslmode=verify-ca", &[("PGSSLROOTCERT", "/b")]), chain("/b"));
        assert_eq!(trust("host=a sslmode=verify-ca", &[("HOME", "/h")]), chain("/h/.postgresql/root.crt"));
        assert_eq!(trust("host=a sslrootcert=system", &[]), Ok(Trust::System));
        assert!(trust("host=a sslrootcert=system", &[("PGSSLMODE", "require")]).expect_err("weak").contains("weak"));
        assert!(trust("host=a sslmode=verify-ca", &[]).expect_err("no file").contains("sslrootcert"));
        assert!(trust("host=a sslmode=sure", &[]).expect_err("a mode").contains("sslmode"));
        let plain = read_with("host=a,/run", &[("PGSSLMODE", "require")], "").expect("a target");
        let modes: Vec<_> = plain.hosts.iter().map(|host| host.login.get_ssl_mode()).collect();
        assert_eq!(modes, [SslMode::Require, SslMode::Disable]);
    }

    #[test]
    fn a_channel_that_cannot_be_bound_is_refused() {
        let refused = |conninfo: &str, environment: &[(&str, &str)]| {
            read_with(conninfo, environment, "").err().unwrap_or_default()
        };
        assert!(refused("host=a channel_binding=require", &[]).contains("channel_binding=require"));
        assert!(refused("postgres://a/?channel_binding=require", &[]).contains("channel_binding=require"));
        assert!(refused("host=a", &[("PGCHANNELBINDING", "require")]).contains("channel_binding=require"));
        assert_eq!(refused("host=a channel_binding=prefer", &[("PGCHANNELBINDING", "require")]), "");
        assert_eq!(refused("host=a channel_binding=disable", &[]), "");
        assert_eq!(refused("host=a channel_binding=tight", &[]), "invalid channel_binding: tight");
    }

    #[test]
    fn a_mistake_does_not_repeat_the_password() {
        for text in ["host=a password=geheim nonsense=1", "postgres://u:geheim@a:port/d", "password='geheim"] {
            let said = read_with(text, &[], "").expect_err("a mistake");
            assert!(!said.contains("geheim"), "{said}");
        }
    }
}
