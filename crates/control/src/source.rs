//! Reads what is put in force: the configuration, `auth_file`, HBA and ident rules, name servers; opens the log file.
//!
//! Always true: what is read again replaces the old state as a whole, or not at all.
//! Not here: when files are read (`boot`, `control`), what they mean (`config`, `auth`).

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{Hba, IdentMaps, LineOutcome, LineProblem, UserFile};
use config::{AuthType, Homes, Loaded, Mistake, NameServers, Overrides, Settings};
use protocol::vars::Tracked;
use reactor::{LogTarget, SystemLog, TcpTuning, open_log_file};
use worker::letters::{ActiveConfig, RateLimits, Standing, TlsTerms};

/// The configuration file and the settings given on the command line.
#[derive(Clone, Debug)]
pub struct Source {
    path: String,
    overrides: Overrides,
    files: FileReader,
}

/// How files are read: from the disk, unless the creator of the control thread supplies another way.
#[derive(Clone)]
pub struct FileReader(Arc<ReadFile>);

type ReadFile = dyn Fn(&str) -> io::Result<Vec<u8>> + Send + Sync;

impl FileReader {
    /// Reads files with `read`.
    #[must_use]
    pub fn new(read: impl Fn(&str) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Reads files from the disk.
    #[must_use]
    pub fn from_disk() -> Self {
        Self::new(|path| std::fs::read(path))
    }

    /// Returns the contents of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        (self.0)(path)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader").finish_non_exhaustive()
    }
}

impl Source {
    /// Settings come from the file `path`; `overrides` take precedence over it.
    #[must_use]
    pub fn new(path: String, overrides: Overrides, files: FileReader) -> Self {
        Self { path, overrides, files }
    }

    /// Reads the settings at the start of the process.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn read(&self) -> Result<Loaded, Vec<Mistake>> {
        config::load(&self.path, &|name| self.files.read(name), &self.overrides)
    }

    /// Reads the settings to check them: returns what could be read together with all errors.
    ///
    /// # Errors
    /// The file itself cannot be read.
    pub fn inspect(&self) -> Result<(Loaded, Vec<Mistake>), Vec<Mistake>> {
        config::inspect(&self.path, &|name| self.files.read(name), &self.overrides)
    }

    /// Reads the settings again. As in PgBouncer, `conffile` may name another file for this.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn read_again(&self, previous: &Settings) -> Result<Loaded, Vec<Mistake>> {
        let path = previous.conffile.as_deref().unwrap_or(&self.path);
        config::load_over(previous, path, &|name| self.files.read(name), &self.overrides)
    }

    /// Returns the reader of the configuration's files and of the files that they name.
    #[must_use]
    pub fn files(&self) -> &FileReader {
        &self.files
    }
}

/// Reads `auth_file`, if these settings need one. The second part lists the errors in its lines.
///
/// # Errors
/// The file cannot be read; the text is a line for the log.
pub fn read_users(settings: &Settings, files: &FileReader) -> Result<(UserFile, Vec<String>), String> {
    let Some(path) = settings.auth_file.as_deref().filter(|_| settings.auth_type.needs_secrets()) else {
        return Ok((UserFile::default(), Vec::new()));
    };
    let bytes = files.read(path).map_err(|error| format!("could not open auth_file {path}: {}", words_of(&error)))?;
    let (users, problems) = UserFile::parse(&bytes);
    Ok((users, problems.iter().map(|problem| format!("{path}: {problem}")).collect()))
}

/// The result of [`read_rules`]: the rules, the ident maps that they name, and log lines about lines that are skipped or let
/// nobody in.
pub type Rules = (Hba, IdentMaps, Vec<String>);

/// Reads the rules of `auth_type = hba`; with another `auth_type` there are none.
///
/// # Errors
/// A file cannot be read, or a line that may have been one that rejects clients, whom the others could let in; the texts
/// are lines for the log. Other lines that cannot be read are skipped, as in PgBouncer.
pub fn read_rules(settings: &Settings, files: &FileReader) -> Result<Rules, Vec<String>> {
    let Some(path) = settings.auth_hba_file.as_deref().filter(|_| settings.auth_type == AuthType::Hba) else {
        return Ok(Rules::default());
    };
    let open = |what: &str, path: &str| {
        files.read(path).map_err(|error| vec![format!("could not open {what} {path}: {}", words_of(&error))])
    };
    let mut skipped = Vec::new();
    let mut idents = IdentMaps::default();
    if let Some(path) = settings.auth_ident_file.as_deref() {
        let (maps, problems) = IdentMaps::parse(&open("auth_ident_file", path)?);
        idents = maps;
        skipped.extend(problems.iter().map(|problem| line_of("ident", path, problem)));
    }
    // A file that a rule names is in the directory of `auth_hba_file`.
    let beside = |name: &str| match Path::new(path).parent().unwrap_or(Path::new("")).join(name).to_str() {
        Some(path) => files.read(path),
        None => Err(io::ErrorKind::InvalidFilename.into()),
    };
    let (hba, problems) = Hba::parse(&open("auth_hba_file", path)?, &idents, &beside);
    let is_doubtful = |problem: &&LineProblem| problem.outcome == LineOutcome::Doubtful;
    let (doubtful, others): (Vec<_>, Vec<_>) = problems.iter().partition(is_doubtful);
    skipped.extend(others.into_iter().map(|problem| line_of("hba", path, problem)));
    match doubtful.is_empty() {
        true => Ok((hba, idents, skipped)),
        false => Err(doubtful.into_iter().map(|problem| line_of("hba", path, problem)).collect()),
    }
}

/// Reads the file of `resolv_conf`; without that setting the system resolves host names.
///
/// # Errors
/// The file cannot be read, or has errors; the texts are lines for the log.
pub fn read_name_servers(settings: &Settings, files: &FileReader) -> Result<Option<Arc<NameServers>>, Vec<String>> {
    let Some(path) = settings.resolv_conf.as_deref() else { return Ok(None) };
    let failed = |error| vec![format!("could not open resolv_conf {path}: {}", words_of(&error))];
    let text = files.read(path).map_err(failed)?;
    match NameServers::parse(path, &text, own_domain().as_deref()) {
        (servers, mistakes) if mistakes.is_empty() => Ok(Some(Arc::new(servers))),
        (_, mistakes) => Err(mistakes.iter().map(ToString::to_string).collect()),
    }
}

/// The name servers that the system uses. Errors in its file are ignored.
pub(crate) fn system_name_servers() -> NameServers {
    let text = std::fs::read(SYSTEM_RESOLV_CONF).unwrap_or_default();
    let (mut servers, _) = NameServers::parse(SYSTEM_RESOLV_CONF, &text, own_domain().as_deref());
    if servers.servers.is_empty() {
        servers.servers = NameServers::system().servers;
    }
    servers
}

/// The domain of this machine's host name: what follows its first dot.
fn own_domain() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    name.split_once('.').map(|(_, domain)| domain.to_owned())
}

const SYSTEM_RESOLV_CONF: &str = "/etc/resolv.conf";

fn line_of(what: &str, path: &str, problem: &LineProblem) -> String {
    let (line, text) = (problem.line, &problem.text);
    match problem.outcome {
        LineOutcome::Kept => format!("{path}:{line}: {text}"),
        LineOutcome::Skipped => {
            format!("{path}: could not parse {what} config line {line}: {text}; the line is skipped")
        }
        LineOutcome::Doubtful => format!("{path}: could not parse {what} config line {line}: {text}"),
    }
}

/// Opens the log that these settings name.
///
/// # Errors
/// `logfile` or the syslog socket cannot be opened; the text is a line for the existing log.
pub fn open_log(settings: &Settings) -> Result<LogTarget, String> {
    let open = |path: &String| {
        open_log_file(path).map_err(|error| format!("could not open logfile \"{path}\": {}", words_of(&error)))
    };
    let file = settings.logfile.as_ref().map(open).transpose()?;
    let failed = |error: io::Error| format!("could not open syslog: {}", words_of(&error));
    // If standard error is the journal, its own socket is used instead: it takes the severity of a line, and multi-line
    // messages.
    let is_journal = !settings.quiet && is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref());
    let mut log = LogTarget::new(!settings.quiet && !is_journal, file)
        .with_verbosity(settings.verbose)
        .with_format(format_of(settings.log_format));
    if is_journal {
        log = log.with_system_log_for_stderr(SystemLog::journal(JOURNAL, &settings.syslog_ident).map_err(failed)?);
    }
    if settings.syslog {
        let facility = config::syslog_facility(&settings.syslog_facility).unwrap_or(config::FACILITY_DAEMON);
        let syslog = SystemLog::syslog(&settings.syslog_socket, &settings.syslog_ident, facility).map_err(failed)?;
        log = log.with_system_log(syslog);
    }
    Ok(log)
}

fn format_of(format: config::LogFormat) -> reactor::LogFormat {
    match format {
        config::LogFormat::Text => reactor::LogFormat::Text,
        config::LogFormat::Json => reactor::LogFormat::Json,
    }
}

/// Returns whether standard error still is the connection to the journal that systemd names in `JOURNAL_STREAM`, by
/// device and inode. It may have been redirected since.
fn is_journal(named: Option<&str>) -> bool {
    let Some((device, number)) = named.and_then(|text| text.split_once(':')) else { return false };
    let is_same = |found: std::fs::Metadata| device.parse() == Ok(found.dev()) && number.parse() == Ok(found.ino());
    std::fs::metadata("/proc/self/fd/2").is_ok_and(is_same)
}

/// The journal's socket for records in its native format.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The contents of the files that the settings name.
#[derive(Debug, Default)]
pub struct Files {
    /// Users and their secrets.
    pub users: UserFile,
    /// Rules for logins, and maps of names.
    pub rules: (Hba, IdentMaps),
    /// What TLS needs.
    pub tls: TlsTerms,
}

/// The configuration of a starting process. `workers` is at least 1.
#[must_use]
pub fn first_config(
    settings: Settings,
    files: Files,
    log: Arc<LogTarget>,
    workers: u8,
    mock_key: [u8; 32],
    own_uid: u32,
) -> ActiveConfig {
    let homes = Homes::assign(&settings, workers, None);
    let tracked = Tracked::new(settings.track_extra_parameters.iter().map(|name| &**name));
    let tuning = tuning(&settings);
    let Files { users, rules: (hba, idents), tls } = files;
    let (hba, idents, standing) = (Arc::new(hba), Arc::new(idents), Standing::default());
    let rates = Arc::new(RateLimits::new(&settings, mock_key));
    ActiveConfig { settings, homes, users, hba, idents, tracked, mock_key, tls, tuning, log, own_uid, standing, rates }
}

/// The configuration that replaces `old` after a reload.
pub(crate) fn next_config(
    settings: Settings,
    users: UserFile,
    (hba, idents): (Hba, IdentMaps),
    tls: TlsTerms,
    log: Arc<LogTarget>,
    old: &ActiveConfig,
) -> ActiveConfig {
    let homes = Homes::assign(&settings, old.homes.workers(), Some(&old.homes));
    let tuning = tuning(&settings);
    let mut standing = old.standing.clone();
    standing.keep(|name| settings.database(name).is_some());
    let (hba, idents) = (Arc::new(hba), Arc::new(idents));
    old.rates.put_in_force(&settings);
    ActiveConfig { settings, homes, users, hba, idents, tls, tuning, log, standing, ..old.clone() }
}

/// The settings of TCP sockets.
#[must_use]
pub fn tuning(settings: &Settings) -> TcpTuning {
    let secs = |duration: Option<Duration>| at_most_u32(duration.map_or(0, |duration| duration.as_secs().into()));
    TcpTuning {
        keepalive: settings.tcp_keepalive,
        keepidle_secs: secs(settings.tcp_keepidle),
        keepintvl_secs: secs(settings.tcp_keepintvl),
        keepcnt: settings.tcp_keepcnt,
        user_timeout_ms: at_most_u32(settings.tcp_user_timeout.map_or(0, |duration| duration.as_millis())),
        socket_buffer: settings.tcp_socket_buffer,
    }
}

/// The text of an error as C programs print it, without the error number that Rust appends.
#[must_use]
pub fn words_of(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn at_most_u32(number: u128) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_its_own_words() {
        assert_eq!(words_of(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(words_of(&io::Error::other("gone")), "gone");
    }

    #[test]
    fn standard_error_is_the_journal_only_if_it_is_the_one_that_is_named() {
        let own = std::fs::metadata("/proc/self/fd/2").expect("a standard error");
        let (device, number) = (own.dev(), own.ino());
        assert!(is_journal(Some(&format!("{device}:{number}"))));
        assert!(!is_journal(Some(&format!("{device}:{}", number + 1))));
        assert!(!is_journal(Some("nonsense")) && !is_journal(Some("")) && !is_journal(None));
    }

    #[test]
    fn times_of_tcp_are_told_in_their_units() {
        let settings = Settings {
            tcp_keepidle: Some(Duration::from_secs(30)),
            tcp_user_timeout: Some(Duration::from_millis(1500)),
            ..Settings::default()
        };
        let tuning = tuning(&settings);
        assert_eq!((tuning.keepalive, tuning.keepidle_secs, tuning.keepintvl_secs), (true, 30, 0));
        assert_eq!(tuning.user_timeout_ms, 1500);
    }

    #[test]
    fn a_file_of_secrets_that_is_not_needed_is_not_read() {
        let settings = Settings {
            auth_type: config::AuthType::Any,
            auth_file: Some("/nowhere/users".to_owned()),
            ..Settings::default()
        };
        let files = FileReader::from_disk();
        assert!(read_users(&settings, &files).is_ok());
        let settings = Settings { auth_type: config::AuthType::Plain, ..settings };
        assert_eq!(
            read_users(&settings, &files).expect_err("there is no such file"),
            "could not open auth_file /nowhere/users: No such file or directory"
        );
    }
}
