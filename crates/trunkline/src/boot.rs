//! The start of the pooler, from reading its configuration to the last line in its log.
//!
//! Always true: the order is PgBouncer's; whatever the process opens after it has switched to another user belongs to
//! that user. A failed step is reported and ends in exit status 1.
//! Not here: the single steps (the other files of this crate).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use auth::UserFile;
use config::{Loaded, NameServers, Settings};
use control::{
    AT_DIRECTORY_MAX, AT_PAM_MAX, Clock, Control, Ending, FileReader, Files, HTTP_HASHINGS_MAX, LOOKUPS_MAX,
    PGBOUNCER_VERSION, PackedEvents, Predecessor, Rules, SYSTEM_USERS_MAX, Service, SharedLog, Signals, Source,
};
use reactor::{Level, Listener, LogTarget};
use tokio::runtime::Runtime;
use worker::letters::{ActiveConfig, Ids, Post, TlsTerms, ToControl};

use crate::args::{RunMode, Serve};
use crate::daemon;
use crate::identity::{self, DescriptorLimit};
use crate::last_words::{self, Fatal, say};
use crate::listening_sockets::{self, ListeningSockets};
use crate::memory;
use crate::pidfile::{self, Old, Pidfile};
use crate::takeover;
use crate::threads::{self, Start, WorkerSetup};

/// Runs the pooler until it is told to end.
pub(crate) fn serve(call: &Serve) -> ExitCode {
    let shared_log = last_words::first_log(call.overrides.quiet);
    last_words::hear_panics(&shared_log);
    let code = match come_up(call, &shared_log) {
        Ok(Ending::Well | Ending::HandedOver) => ExitCode::SUCCESS,
        Ok(Ending::Badly) => ExitCode::FAILURE,
        Err(Fatal(text)) => {
            say(&shared_log, Level::Fatal, format_args!("{text}"));
            ExitCode::FAILURE
        }
    };
    last_words::finish(&shared_log);
    code
}

fn come_up(call: &Serve, shared_log: &SharedLog) -> Result<Ending, Fatal> {
    if call.mode == RunMode::Detached {
        daemon::leave_session();
    }
    let source = Source::new(call.config.clone(), call.overrides.clone(), FileReader::from_disk());
    let loaded = load(&source, shared_log)?;
    if call.mode == RunMode::Background {
        return daemon::detach(&loaded.settings).map(|()| Ending::Well);
    }
    let judged = ops::lint::at_start(&call.config, &loaded);
    let Loaded { settings, warnings, .. } = loaded;
    // As in PgBouncer before the user is switched: only root may be able to read secrets and keys.
    let users = control::read_users(&settings, source.files());
    let rules = read_rules(&settings, source.files(), shared_log)?;
    let name_servers = read_name_servers(&settings, source.files(), shared_log)?;
    let tls = read_tls(&settings, source.files(), shared_log)?;
    identity::become_user(settings.user.as_deref())?;
    let mut predecessor = if call.is_reboot { takeover::find(&settings)? } else { None };
    let old = if predecessor.is_some() { Old::None } else { check_alone(&settings)? };
    let log = open_log(&settings, shared_log)?;
    if old == Old::Stale {
        say(shared_log, Level::Log, format_args!("stale pidfile, removing"));
    }
    for warning in &warnings {
        say(shared_log, Level::Warning, format_args!("{warning}"));
    }
    if let Some(line) = judged {
        say(shared_log, Level::Log, format_args!("{line}"));
    }
    let mut active = first_config(settings, users, rules, tls, log, shared_log)?;
    if call.is_reboot {
        follow(predecessor.as_ref(), &mut active, shared_log);
    }
    let active = Arc::new(active);
    let limit = identity::raise_descriptor_limit()?;
    tell_descriptors(&active, limit, shared_log);
    tell_memory(&active, shared_log);
    let mut choice = threads::choose(active.settings.io_backend, reactor::probe_uring)?;
    say(shared_log, Level::Log, format_args!("{choice}"));

    let runtime = runtime()?;
    let signals = {
        let _inside = runtime.enter();
        Signals::catch().map_err(|error| Fatal(format!("cannot catch signals: {error}")))?
    };
    let inherited = predecessor.as_mut().map(Predecessor::take_listeners).unwrap_or_default();
    // First, so that HTTP is available as soon as the pooler answers clients.
    let http = open_http(&active.settings, &runtime, shared_log);
    let sockets = open_listening_sockets(&active.settings, inherited, shared_log)?;
    let mut pidfile = None;
    if predecessor.is_none() {
        pidfile = active.settings.pidfile.as_deref().map(Pidfile::write).transpose()?;
    }
    let (letter, letters) = tokio::sync::mpsc::unbounded_channel();
    let post: Post<ToControl> = Arc::new(move |written| drop(letter.send(written)));
    let ids = Ids::default();
    let start = if predecessor.is_some() { Start::Asleep } else { Start::Awake };
    let chosen = choice.clone();
    let setup =
        WorkerSetup { active: &active, listeners: &sockets.listeners, control: &post, ids: &ids, start, seed: seed()? };
    let workers = threads::start(&mut choice, setup)?;
    if choice != chosen {
        say(shared_log, Level::Warning, format_args!("{choice}"));
    }
    let ListeningSockets { listeners, mut socket_file, .. } = sockets;
    let service = std::env::var("NOTIFY_SOCKET").map_or_else(|_| Service::default(), |address| Service::at(&address));
    let mut events_before = PackedEvents::default();
    if let Some(predecessor) = &predecessor {
        events_before = takeover::take_over(predecessor, &active, &workers.posts, &ids, shared_log)?;
        // Sent while the old process still runs: without a main process systemd regards the service as ended.
        service.is_main(std::process::id());
        for warning in listening_sockets::adopt(&active.settings, &listeners) {
            say(shared_log, Level::Warning, format_args!("{warning}"));
        }
        // Dropping it would remove the file that `move_in` takes over: if the old process spelled the directory
        // differently, both names are the same file.
        socket_file.into_iter().for_each(listening_sockets::SocketFile::leave);
        (socket_file, pidfile) = takeover::move_in(predecessor, &active.settings, shared_log);
    }
    // A worker that closes a listening socket must hold the last reference to it.
    drop(listeners);
    tell_up(&active, choice.name(), shared_log);
    if call.mode == RunMode::Detached {
        daemon::tell_parent()?;
    }
    if predecessor.is_none() {
        service.ready();
    }

    let clock = Clock::start();
    let control = Control::new(source, active, Arc::clone(shared_log), warnings, workers.posts.clone(), clock.now())
        .with_ids(ids)
        .with_name_servers(name_servers)
        .with_service(service)
        .with_events(events_before)
        .with_clusters(predecessor.as_ref().map_or(&[], |predecessor| predecessor.clusters()));
    let ending = runtime.block_on(control::run(control, clock, letters, signals, http));
    workers.wait(FAREWELL_MAX);
    // Otherwise this would wait for lookups that are under way.
    runtime.shutdown_background();
    if let (Ending::HandedOver, Some(file)) = (ending, socket_file) {
        file.leave();
    }
    drop(pidfile);
    Ok(ending)
}

/// Checks that nobody answers where this process is to listen, and that its pidfile is not another process's.
fn check_alone(settings: &Settings) -> Result<Old, Fatal> {
    listening_sockets::check_nobody_answers(settings)?;
    settings.pidfile.as_deref().map_or(Ok(Old::None), pidfile::check_old)
}

/// The first step of an online restart: applies what the old process reports as being in force, if there is an old
/// process.
fn follow(predecessor: Option<&Predecessor>, active: &mut ActiveConfig, shared_log: &SharedLog) {
    match predecessor {
        Some(predecessor) => {
            say(shared_log, Level::Log, format_args!("online restart: taking over from process {}", predecessor.pid()));
            predecessor.shape(active);
        }
        None => say(shared_log, Level::Log, format_args!("old process not found, try to continue normally")),
    }
}

fn load(source: &Source, shared_log: &SharedLog) -> Result<Loaded, Fatal> {
    source.read().map_err(|mistakes| {
        for mistake in mistakes {
            say(shared_log, Level::Error, format_args!("{mistake}"));
        }
        Fatal("cannot load config file".to_owned())
    })
}

/// The secrets and the mistakes in their file, or why there are none.
type Users = Result<(UserFile, Vec<String>), String>;

fn open_log(settings: &Settings, shared_log: &SharedLog) -> Result<Arc<LogTarget>, Fatal> {
    let log = Arc::new(control::open_log(settings)?);
    // Nobody can have panicked while holding the lock: a panic ends the process.
    if let Ok(mut shared_log) = shared_log.write() {
        *shared_log = Arc::clone(&log);
    }
    Ok(log)
}

fn read_tls(settings: &Settings, files: &FileReader, shared_log: &SharedLog) -> Result<TlsTerms, Fatal> {
    control::read_tls(settings, files).map_err(|lines| {
        lines.iter().for_each(|line| say(shared_log, Level::Error, format_args!("{line}")));
        Fatal("TLS setup failed".to_owned())
    })
}

fn read_rules(settings: &Settings, files: &FileReader, shared_log: &SharedLog) -> Result<Rules, Fatal> {
    control::read_rules(settings, files).map_err(|lines| {
        lines.iter().for_each(|line| say(shared_log, Level::Error, format_args!("{line}")));
        Fatal("cannot load auth_hba_file".to_owned())
    })
}

fn read_name_servers(
    settings: &Settings,
    files: &FileReader,
    shared_log: &SharedLog,
) -> Result<Option<Arc<NameServers>>, Fatal> {
    control::read_name_servers(settings, files).map_err(|lines| {
        lines.iter().for_each(|line| say(shared_log, Level::Error, format_args!("{line}")));
        Fatal("cannot load resolv_conf".to_owned())
    })
}

fn first_config(
    settings: Settings,
    users: Users,
    (hba, idents, lines): Rules,
    tls: TlsTerms,
    log: Arc<LogTarget>,
    shared_log: &SharedLog,
) -> Result<ActiveConfig, Fatal> {
    lines.iter().for_each(|line| say(shared_log, Level::Warning, format_args!("{line}")));
    // As in PgBouncer when the file is missing: users who need no secret can still be served.
    let (users, problems) = users.unwrap_or_else(|text| (UserFile::default(), vec![text]));
    problems.iter().for_each(|problem| say(shared_log, Level::Error, format_args!("{problem}")));
    let mut mock_key = [0; 32];
    getrandom::fill(&mut mock_key).map_err(no_randomness)?;
    let workers = match u8::try_from(settings.workers) {
        Ok(0) => std::thread::available_parallelism().map_or(1, |count| u8::try_from(count.get()).unwrap_or(u8::MAX)),
        Ok(workers) => workers,
        Err(_) => u8::MAX,
    };
    Ok(control::first_config(
        settings,
        Files { users, rules: (hba, idents), tls },
        log,
        workers,
        mock_key,
        identity::own_uid(),
    ))
}

fn open_listening_sockets(
    settings: &Settings,
    inherited: Vec<Listener>,
    shared_log: &SharedLog,
) -> Result<ListeningSockets, Fatal> {
    let sockets = listening_sockets::open(settings, inherited)?;
    for warning in &sockets.warnings {
        say(shared_log, Level::Warning, format_args!("{warning}"));
    }
    let is_passed = listening_sockets::passed() > 0;
    for listener in &sockets.listeners {
        let how = if is_passed { "socket passed from service manager: " } else { "" };
        say(shared_log, Level::Log, format_args!("{how}listening on {}", listening_sockets::name(listener)));
    }
    Ok(sockets)
}

fn open_http(settings: &Settings, runtime: &Runtime, shared_log: &SharedLog) -> Vec<tokio::net::TcpListener> {
    let _inside = runtime.enter();
    let (listeners, warnings) = listening_sockets::open_http(settings);
    for warning in &warnings {
        say(shared_log, Level::Warning, format_args!("{warning}"));
    }
    for address in listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
        say(shared_log, Level::Log, format_args!("listening for HTTP on {address}"));
    }
    listeners
}

/// One thread, plus threads for what blocks: lookups of host names, of system users and in LDAP directories, PAM, and
/// password hashes for HTTP.
fn runtime() -> Result<Runtime, Fatal> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let blocking = LOOKUPS_MAX + SYSTEM_USERS_MAX + AT_PAM_MAX + AT_DIRECTORY_MAX + HTTP_HASHINGS_MAX;
    let built = builder.enable_all().max_blocking_threads(blocking).thread_name("lookup").build();
    built.map_err(|error| Fatal(format!("cannot start the control thread: {error}")))
}

fn tell_descriptors(active: &ActiveConfig, limit: DescriptorLimit, shared_log: &SharedLog) {
    let (DescriptorLimit { soft, hard }, clients) = (limit, active.settings.max_client_conn);
    let expected = identity::descriptors_expected(&active.settings, active.users.len());
    say(
        shared_log,
        Level::Log,
        format_args!(
            "kernel file descriptor limit: {soft} (hard: {hard}); max_client_conn: {clients}, max expected fd use: {expected}"
        ),
    );
    if expected > soft {
        say(shared_log, Level::Warning, format_args!("max expected fd use ({expected}) is above the limit ({soft})"));
    }
}

fn tell_memory(active: &ActiveConfig, shared_log: &SharedLog) {
    if let Some(limit) = memory::limit() {
        let share = memory::held_bytes_max(Some(limit), active.homes.workers().into());
        let (limit, share) = (limit >> 20, share >> 20);
        say(
            shared_log,
            Level::Log,
            format_args!(
                "memory limit of the control group: {limit} MiB; each worker may hold {share} MiB for its clients"
            ),
        );
    }
}

fn tell_up(active: &ActiveConfig, io: &str, shared_log: &SharedLog) {
    let (ours, workers) = (env!("CARGO_PKG_VERSION"), active.homes.workers());
    let line = format_args!(
        "process up: PgBouncer {PGBOUNCER_VERSION}, trunkline {ours}, io: {io}, workers: {workers}, tls: rustls"
    );
    say(shared_log, Level::Log, line);
}

fn seed() -> Result<u64, Fatal> {
    getrandom::u64().map_err(no_randomness)
}

fn no_randomness(error: getrandom::Error) -> Fatal {
    Fatal(format!("the system gives no randomness: {error}"))
}

/// How long workers may take to end after they were told to.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
