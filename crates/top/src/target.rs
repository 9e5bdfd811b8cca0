//! The address of the console, the user, and the password.
//!
//! Always true: the command line takes precedence over the URL, the URL over the configuration file, and that over the
//! environment.
//! Not here: reading the environment or a file; both are passed as functions.

use std::time::Duration;

use conninfo::{Address, Split, Trust, clean, kept_password, pass_file};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::options::{Target, TopOptions};

/// Where a pooler on this machine listens, according to its configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listening {
    /// The directory of its unix socket.
    pub socket_dir: Option<String>,
    /// One of its TCP addresses, if any.
    pub address: Option<String>,
    /// The port of both.
    pub port: u16,
}

/// The environment of the command.
pub(crate) struct Machine<'a> {
    /// Reads an environment variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file with passwords, unless others may read that file.
    pub(crate) passwords: &'a dyn Fn(&str) -> Option<String>,
    /// The system user.
    pub(crate) user: Option<String>,
}

/// Everything that a login needs.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleLogin {
    /// The addresses to try, in this order.
    pub(crate) addresses: Vec<Address>,
    /// User, password, database.
    pub(crate) config: Config,
    /// Whose certificates are trusted.
    pub(crate) trust: Trust,
}

impl ConsoleLogin {
    /// The user, for display.
    pub(crate) fn user(&self) -> String {
        clean(self.config.get_user().unwrap_or_default())
    }
}

/// Combines options, configuration file and environment.
///
/// # Errors
/// Says which of the values is invalid.
pub(crate) fn console_login(
    options: &TopOptions,
    listening: Option<&Listening>,
    machine: &Machine<'_>,
) -> Result<ConsoleLogin, String> {
    let variable = |name: &str| (machine.variable)(name).filter(|value| !value.is_empty());
    let split = match &options.target {
        Target::Address(address) => Split::of(address, &OUR_KEYS),
        Target::Default | Target::ConfigFile(_) => Split::of("", &OUR_KEYS),
    };
    let mut config: Config = split.rest.parse().map_err(|error| address_mistake(&error))?;
    let said_ports: &[u16] = if says_port(&options.target) { config.get_ports() } else { &[] };
    let port = options.port.or(said_ports.first().copied()).or(listening.map(|listening| listening.port));
    let port = match (port, variable("PGPORT")) {
        (Some(port), _) => port,
        (None, Some(text)) => text.parse().map_err(|_| format!("PGPORT is {text:?}, which is no port"))?,
        (None, None) => PORT,
    };
    let said_ports: Vec<u16> = options.port.map_or(said_ports.to_vec(), |_| Vec::new());
    let addresses = addresses(options, &config, &said_ports, listening, variable("PGHOST"), port);
    let user = options.user.clone().or(config.get_user().map(str::to_owned)).or(variable("PGUSER"));
    let user = user.or(machine.user.clone()).ok_or("the system does not know our user; say -U USER")?;
    let database = options.database.clone().or(config.get_dbname().map(str::to_owned));
    let database = database.unwrap_or_else(|| DATABASE.to_owned());
    config.user(&user).dbname(&database);
    if config.get_application_name().is_none() {
        config.application_name(NAME);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIME_MAX);
    }
    if config.get_password().is_none() {
        let kept = || kept_password(&(machine.passwords)(&pass_file(&variable)?)?, &addresses, &database, &user);
        if let Some(password) = variable("PGPASSWORD").or_else(kept) {
            config.password(password);
        }
    }
    let said = |key: &str, name: &str| split.value(key).map(str::to_owned).or(variable(name));
    let root_cert = said("sslrootcert", "PGSSLROOTCERT").filter(|path| !path.is_empty());
    let mode = said("sslmode", "PGSSLMODE");
    let (mode, trust) = Trust::read(mode.as_deref(), root_cert.as_deref(), variable("HOME").as_deref())?;
    config.ssl_mode(mode);
    Ok(ConsoleLogin { addresses, config, trust })
}

fn address_mistake(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    clean(&format!("{error}{source}"))
}

/// Whether an address contains a port. The driver assumes 5432 in a URL without one, but a console is seldom there.
fn says_port(target: &Target) -> bool {
    let Target::Address(address) = target else { return false };
    let Some((_, rest)) = address.split_once("://") else { return address.contains("port") };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let after_address = |host: &str| host.rsplit(']').next().unwrap_or_default().contains(':');
    hosts.split(',').any(after_address) || rest.contains("port=")
}

fn addresses(
    options: &TopOptions,
    config: &Config,
    said_ports: &[u16],
    listening: Option<&Listening>,
    from_environment: Option<String>,
    port: u16,
) -> Vec<Address> {
    if let Some(host) = &options.host {
        return vec![Address::at(host, port)];
    }
    if !config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty() {
        return said_addresses(config, said_ports, port);
    }
    if let Some(listening) = listening {
        let socket = listening.socket_dir.iter().map(|directory| Address::socket(directory, port));
        return socket.chain(listening.address.iter().map(|host| Address::at(host, port))).collect();
    }
    match from_environment {
        Some(hosts) => hosts.split(',').map(|host| Address::at(host, port)).collect(),
        None => SOCKET_DIRS.iter().map(|directory| Address::socket(directory, port)).collect(),
    }
}

/// The hosts of a URL, each with its port.
fn said_addresses(config: &Config, said_ports: &[u16], port: u16) -> Vec<Address> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    let one = |at: usize| {
        let port = said_ports.get(at).copied().unwrap_or(port);
        match (config.get_hosts().get(at), config.get_hostaddrs().get(at)) {
            (Some(Host::Unix(directory)), None) => Address::socket(&directory.to_string_lossy(), port),
            (Some(Host::Tcp(host)), None) => Address::Tcp { host: host.clone(), port },
            (_, Some(address)) => Address::Tcp { host: address.to_string(), port },
            (None, None) => Address::socket(SOCKET_DIRS[0], port),
        }
    };
    (0..count).map(one).collect()
}

/// What the driver does not know in libpq's full meaning.
const OUR_KEYS: [&str; 2] = ["sslmode", "sslrootcert"];
/// PgBouncer's port.
const PORT: u16 = 6432;
/// PgBouncer's database for its console.
const DATABASE: &str = "pgbouncer";
/// The `application_name` of this client.
const NAME: &str = "trunkline top";
/// The usual directories of unix sockets: Debian's, and PostgreSQL's default.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// How long a login may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use reactor::tls::Check;
    use tokio_postgres::config::SslMode;

    use super::*;

    struct Told {
        args: Vec<&'static str>,
        environment: Vec<(&'static str, &'static str)>,
        passwords: &'static str,
        listening: Option<Listening>,
    }

    fn told(args: &[&'static str], environment: &[(&'static str, &'static str)]) -> Told {
        Told { args: args.to_vec(), environment: environment.to_vec(), passwords: "", listening: None }
    }

    impl Told {
        fn login(&self) -> Result<ConsoleLogin, String> {
            let options = TopOptions::parse(self.args.iter().map(std::ffi::OsString::from))?;
            let find = |name: &str| self.environment.iter().find(|(known, _)| *known == name);
            let machine = Machine {
                variable: &|name| find(name).map(|(_, value)| (*value).to_owned()),
                passwords: &|path| (path == "/home/.pgpass").then(|| self.passwords.to_owned()),
                user: Some("me".to_owned()),
            };
            console_login(&options, self.listening.as_ref(), &machine)
        }

        fn addresses(&self) -> Vec<String> {
            self.login().expect("a login").addresses.iter().map(Address::name).collect()
        }

        fn password(&self) -> Option<String> {
            let login = self.login().expect("a login");
            login.config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        }
    }

    #[test]
    fn without_a_word_the_sockets_of_this_machine_are_tried_as_the_systems_user() {
        let told = told(&[], &[]);
        assert_eq!(told.addresses(), ["/var/run/postgresql/.s.PGSQL.6432", "/tmp/.s.PGSQL.6432"]);
        let login = told.login().expect("a login");
        assert_eq!((login.user().as_str(), login.config.get_dbname()), ("me", Some("pgbouncer")));
        assert_eq!(login.config.get_password(), None);
    }

    #[test]
    fn the_command_line_wins_over_the_url_and_that_over_the_environment() {
        let environment = [("PGHOST", "env"), ("PGPORT", "1"), ("PGUSER", "env")];
        assert_eq!(told(&[], &environment).addresses(), ["env:1"]);
        let url = told(&["postgres://u:secret@db:6433/console"], &environment);
        assert_eq!((url.addresses(), url.password().as_deref()), (vec!["db:6433".to_owned()], Some("secret")));
        assert_eq!(url.login().expect("a login").config.get_dbname(), Some("console"));
        assert_eq!(
            told(&["postgres://u@db:6433", "-h", "/run", "-p", "9"], &environment).addresses(),
            ["/run/.s.PGSQL.9"]
        );
        assert_eq!(told(&["postgres://u@db"], &[]).addresses(), ["db:6432"]);
        assert_eq!(told(&["postgres://u:a:b@[::1]/x"], &[]).addresses(), ["::1:6432"]);
        assert_eq!(told(&["postgres://u@[::1]:7/x"], &[]).addresses(), ["::1:7"]);
        assert_eq!(told(&["host=/run,db port=1,2"], &[]).addresses(), ["/run/.s.PGSQL.1", "db:2"]);
        assert!(told(&[], &[("PGPORT", "x")]).login().is_err());
    }

    #[test]
    fn a_configuration_file_says_where_its_pooler_listens() {
        let mut told = told(&["a.ini"], &[("PGHOST", "elsewhere")]);
        let address = Some("127.0.0.1".to_owned());
        told.listening = Some(Listening { socket_dir: Some("/run/a".to_owned()), address, port: 7 });
        assert_eq!(told.addresses(), ["/run/a/.s.PGSQL.7", "127.0.0.1:7"]);
    }

    #[test]
    fn a_password_comes_from_the_environment_or_from_the_file() {
        let home = ("HOME", "/home");
        let mut told = told(&["-h", "db"], &[home, ("PGPASSWORD", "from env")]);
        told.passwords =
            "# db:6432:*:me:no\nother:6432:pgbouncer:me:no\ndb:*:pgbouncer:me:a\\:b\\\\c:d\n*:*:*:*:late\n";
        assert_eq!(told.password().as_deref(), Some("from env"));
        told.environment = vec![home];
        assert_eq!(told.password().as_deref(), Some("a:b\\c:d"));
        told.args = vec!["-h", "db", "-U", "x"];
        assert_eq!(told.password().as_deref(), Some("late"));
        told.passwords = "localhost:6432:pgbouncer:me:by socket";
        told.args = vec![];
        assert_eq!(told.password().as_deref(), Some("by socket"));
        told.environment = vec![home, ("PGPASSFILE", "/else")];
        assert_eq!(told.password(), None);
    }

    /// What a mode means is tested where it is read, for all commands.
    #[test]
    fn certificates_are_checked_as_the_string_or_the_environment_says() {
        let trust = |args: &[&'static str], environment: &[(&'static str, &'static str)]| {
            told(args, environment).login().map(|login| (login.config.get_ssl_mode(), login.trust))
        };
        let (chain, full) = (
            |path: &str| (SslMode::Require, Trust::File(Check::Chain, path.to_owned())),
            |path: &str| (SslMode::Require, Trust::File(Check::ChainAndName, path.to_owned())),
        );
        assert_eq!(trust(&["-h", "db"], &[]), Ok((SslMode::Prefer, Trust::Any)));
        assert_eq!(trust(&["-h", "db"], &[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", "/a")]), Ok(full("/a")));
        assert_eq!(
            trust(&["-h", "db"], &[("PGSSLMODE", "verify-ca"), ("HOME", "/h")]),
            Ok(chain("/h/.postgresql/root.crt"))
        );
        let url = "postgres://u@db:6433/?sslmode=verify-full&sslrootcert=%2fa";
        assert_eq!(trust(&[url], &[("PGSSLMODE", "disable"), ("PGSSLROOTCERT", "/b")]), Ok(full("/a")));
        assert_eq!(
            trust(&["host=db sslmode=disable"], &[("PGSSLMODE", "require")]),
            Ok((SslMode::Disable, Trust::Any))
        );
        assert_eq!(trust(&["host=db sslmode=prefer"], &[("PGSSLMODE", "require")]), Ok((SslMode::Prefer, Trust::Any)));
        assert_eq!(trust(&["host=db sslrootcert=system"], &[]), Ok((SslMode::Require, Trust::System)));
        let with_home = trust(&["host=db sslmode=require"], &[("HOME", "/h")]);
        assert_eq!(with_home, Ok((SslMode::Require, Trust::FileIfThere("/h/.postgresql/root.crt".to_owned()))));
        assert!(trust(&["-h", "db"], &[("PGSSLMODE", "verify-ca")]).expect_err("no file").contains("sslrootcert"));
        assert!(trust(&["-h", "db"], &[("PGSSLMODE", "maybe")]).expect_err("a mode").contains("sslmode"));
        let text = told(&["host=db nonsense=1"], &[]).login().expect_err("unknown");
        assert!(text.contains("nonsense"), "{text}");
    }
}
