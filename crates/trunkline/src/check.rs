//! `trunkline --check`: reports all mistakes of a configuration.
//!
//! Always true: no file is opened but those that the configuration names, and nothing is created; no port of the
//! configuration is bound, since a running process may listen there (an address is tried with a port of the system's
//! choice); mistakes go to standard error, one per line; a mistake in one file hides none in another.
//! Not here: mistakes in one setting (`config`), or in a file that a setting names (`control`).

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::ExitCode;

use auth::UserFile;
use base::counted;
use config::{AuthType, Loaded, Overrides, Place, Settings};
use control::{FileReader, Source};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use crate::{identity, listening_sockets};

/// Validates the file `config` and the files that it names, and judges it if that is wanted. Mistakes have the last word on the exit status.
pub(crate) fn check(config: &str, is_linted: bool) -> ExitCode {
    let checked = mistakes(config);
    if !is_linted {
        return checked;
    }
    let linted = crate::lint::beside_check(config);
    if checked == ExitCode::SUCCESS { linted } else { checked }
}

fn mistakes(config: &str) -> ExitCode {
    let source = Source::new(config.to_owned(), Overrides::default(), FileReader::from_disk());
    let (loaded, mistakes) = match source.inspect() {
        Ok(read) => read,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("error: {mistake}"));
            return failed(mistakes.len());
        }
    };
    let (settings, files) = (&loaded.settings, source.files());
    let mut problems: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    loaded.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    warn_of_start(&loaded);
    warn_of_places(&loaded);
    match control::read_users(settings, files) {
        Ok((users, wrong)) => {
            // Users of a broken file are not known at all.
            if wrong.is_empty() {
                warn_of_strangers(&loaded, &users);
            }
            problems.extend(wrong);
        }
        Err(text) => problems.push(text),
    }
    match control::read_rules(settings, files) {
        Ok((_, _, lines)) => problems.extend(lines),
        Err(lines) => problems.extend(lines),
    }
    problems.extend(control::read_tls(settings, files).err().unwrap_or_default());
    problems.extend(control::read_name_servers(settings, files).err().unwrap_or_default());
    problems.extend(places(settings));
    if !problems.is_empty() {
        problems.iter().for_each(|problem| eprintln!("error: {problem}"));
        return failed(problems.len());
    }
    let (count, databases) = (loaded.files.len(), settings.databases.len());
    let any = if settings.fallback.is_some() { " and any other (*)" } else { "" };
    println!("{config}: good ({}, {}{any})", counted(count, "file"), counted(databases, "database"));
    ExitCode::SUCCESS
}

/// What a start would find missing: places to listen, directories to write to, the user to switch to.
fn places(settings: &Settings) -> Vec<String> {
    let mut wrong = listening_sockets::check(settings);
    wrong.extend(settings.user.as_deref().and_then(identity::unknown));
    let written = [("logfile", &settings.logfile), ("pidfile", &settings.pidfile)];
    wrong.extend(written.into_iter().filter_map(|(name, path)| cannot_be_made(name, path.as_deref()?)));
    wrong
}

/// Says that a file cannot be created because its directory is missing, or because it is a directory itself.
fn cannot_be_made(setting: &str, path: &str) -> Option<String> {
    let directory = Path::new(path).parent().filter(|directory| !directory.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.is_dir() => {
            Some(format!("{setting}: {path} cannot be made: there is no directory {}", directory.display()))
        }
        _ if Path::new(path).is_dir() => Some(format!("{setting}: {path} is a directory")),
        _ => None,
    }
}

fn warn(place: Place, text: &str) {
    println!("warning: {place}: {text}");
}

/// Warns of what depends on how the process is started.
fn warn_of_start(loaded: &Loaded) {
    let settings = &loaded.settings;
    if let Some(path) = settings.auth_file.as_deref().filter(|path| !path.starts_with('/')) {
        let text = format!("auth_file {path} is relative: it is looked for where the process is started");
        warn(loaded.places.setting("auth_file"), &text);
    }
    if settings.listen_addr.iter().next().is_none() && settings.unix_socket_dir.is_none() {
        let text = "neither listen_addr nor unix_socket_dir is set: only a service manager can pass sockets";
        warn(loaded.places.setting("listen_addr"), text);
    }
}

/// Warns of places that the start can do without, or that this user cannot write to: another may run the process.
fn warn_of_places(loaded: &Loaded) {
    let settings = &loaded.settings;
    listening_sockets::check_http(settings)
        .iter()
        .for_each(|text| warn(loaded.places.setting("http_listen_addr"), text));
    let is_missing = |path: &str| !path.is_empty() && !Path::new(path).exists();
    if settings.syslog && is_missing(&settings.syslog_socket) {
        let text = format!("syslog_socket: there is no {}: log lines are lost", settings.syslog_socket);
        warn(loaded.places.setting("syslog_socket"), &text);
    }
    if let Some(path) = settings.otlp_ca_file.as_deref().filter(|path| is_missing(path)) {
        warn(
            loaded.places.setting("otlp_ca_file"),
            &format!("otlp_ca_file: there is no {path}: spans cannot be posted"),
        );
    }
    if let Some(path) = settings.logfile.as_deref().filter(|path| is_fifo(path)) {
        let text = format!("logfile: {path} is a FIFO: a start fails unless a process reads it");
        warn(loaded.places.setting("logfile"), &text);
    }
    if settings.user.is_some() {
        return;
    }
    let socket = listening_sockets::socket_path(settings).filter(|path| !path.starts_with('@'));
    let written =
        [("unix_socket_dir", socket), ("logfile", settings.logfile.clone()), ("pidfile", settings.pidfile.clone())];
    for (name, path) in written.into_iter().filter_map(|(name, path)| Some((name, path?))) {
        if let Some(place) = cannot_be_written(Path::new(&path)) {
            warn(loaded.places.setting(name), &format!("{name}: the user who checks cannot write to {place}"));
        }
    }
}

fn is_fifo(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// The file, or the directory in which it is to be made, if this user may not write there.
fn cannot_be_written(path: &Path) -> Option<String> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = if path.is_file() { path } else { directory };
    let refused = matches!(access(place, AccessFlags::W_OK), Err(Errno::EACCES | Errno::EPERM | Errno::EROFS));
    refused.then(|| place.display().to_string())
}

/// Warns of named users who cannot log in, or whose passwords are unknown.
fn warn_of_strangers(loaded: &Loaded, users: &UserFile) {
    let settings = &loaded.settings;
    if !settings.auth_type.needs_secrets() {
        return;
    }
    let is_known = |user: &str| users.secret(user).is_some();
    // With another auth_type or with auth_query, users may be known elsewhere than in auth_file, so they are not
    // checked.
    let is_listed =
        matches!(settings.auth_type, AuthType::Trust | AuthType::Plain | AuthType::Md5 | AuthType::ScramSha256);
    let is_asked =
        settings.auth_user.is_some() || settings.databases.values().any(|database| database.auth_user.is_some());
    if is_listed && !is_asked && settings.auth_file.is_some() {
        for (name, list) in [("admin_users", &settings.admin_users), ("stats_users", &settings.stats_users)] {
            let strangers: Vec<&str> = list.iter().map(|user| &**user).filter(|user| !is_known(user)).collect();
            if !strangers.is_empty() {
                let text =
                    format!("{name} names users who are not in auth_file and cannot log in: {}", strangers.join(", "));
                warn(loaded.places.setting(name), &text);
            }
        }
    }
    // A server that accepts our certificate may need no password.
    if settings.server_tls_cert_file.is_some() {
        return;
    }
    let databases = || settings.fallback.iter().chain(settings.databases.values());
    let has_password = |user: &str| {
        is_known(user)
            || databases().any(|database| database.user.as_deref() == Some(user) && database.password.is_some())
    };
    let unknown = |user: &str| format!("auth_user {user} is not in auth_file: its logins at servers have no password");
    if let Some(user) = settings.auth_user.as_deref().filter(|user| !has_password(user)) {
        warn(loaded.places.setting("auth_user"), &unknown(user));
    }
    for database in databases() {
        if let Some(user) = database.auth_user.as_deref().filter(|user| !has_password(user)) {
            warn(loaded.places.database(&database.name), &unknown(user));
        }
    }
}

fn failed(mistakes: usize) -> ExitCode {
    eprintln!("{}", counted(mistakes, "mistake"));
    ExitCode::FAILURE
}
