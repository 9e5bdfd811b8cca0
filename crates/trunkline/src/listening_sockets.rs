//! The listening sockets that the settings ask for.
//!
//! Always true: the socket file of another living process is never touched; ours is removed when the process ends. An
//! address that cannot be listened on is a warning; no address at all is fatal.
//! Not here: accepting (`reactor`, `worker`).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{self, UnixStream};
use std::path::Path;
use std::sync::Arc;

use config::Settings;
use control::words_of;
use nix::sys::stat::{Mode, umask};
use nix::unistd::Group;
use reactor::{Bound, ListenFault, Listener, Wanted};
use tokio::net::{TcpListener, TcpSocket};

use crate::last_words::Fatal;

/// All listeners, and the warnings about them.
#[derive(Debug)]
pub(crate) struct ListeningSockets {
    pub(crate) listeners: Vec<Arc<Listener>>,
    /// Our socket file, if there is one.
    pub(crate) socket_file: Option<SocketFile>,
    /// The addresses that could not be listened on.
    pub(crate) warnings: Vec<String>,
}

/// The file of our unix socket. Removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: String,
}

impl SocketFile {
    /// Gives the file up, without removing it: it belongs to another process now.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks that no process answers at our unix socket.
///
/// # Errors
/// A process does.
pub(crate) fn check_nobody_answers(settings: &Settings) -> Result<(), Fatal> {
    let Some(path) = socket_path(settings).filter(|_| passed() == 0) else { return Ok(()) };
    let answer = match path.strip_prefix('@') {
        Some(name) => net::SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address)),
        None => UnixStream::connect(&path),
    };
    match answer {
        Ok(_) => Err(Fatal("unix socket is in use, cannot continue".to_owned())),
        Err(_) => Ok(()),
    }
}

/// Listens at all addresses of the settings, and reuses those of the `inherited` listeners that fit. The file of an
/// inherited unix socket is not ours yet: see [`own_socket_file`].
///
/// # Errors
/// No address can be listened on, or the unix socket cannot be created.
pub(crate) fn open(settings: &Settings, mut inherited: Vec<Listener>) -> Result<ListeningSockets, Fatal> {
    let wanted = wanted(settings);
    let mut sockets = ListeningSockets { listeners: Vec::new(), socket_file: None, warnings: Vec::new() };
    match passed() {
        0 => open_own(settings, &mut inherited, &wanted, &mut sockets)?,
        count => open_passed(settings, count, &wanted, &mut sockets)?,
    }
    if sockets.listeners.is_empty() {
        return Err(Fatal("nowhere to listen on".to_owned()));
    }
    Ok(sockets)
}

/// The reasons why listening would fail, as far as they can be told without listening.
pub(crate) fn check(settings: &Settings) -> Vec<String> {
    let looked_up = settings.listen_addr.iter().map(|item| client_addresses(item, settings));
    let (found, unknown): (Vec<_>, Vec<_>) = looked_up.partition(Result::is_ok);
    let found: Vec<SocketAddr> = found.into_iter().flat_map(Result::unwrap_or_default).collect();
    let mut wrong: Vec<String> = unknown.into_iter().filter_map(|found| found.err().map(|Fatal(text)| text)).collect();
    let foreign: Vec<String> = found
        .iter()
        .filter(|address| !is_of_this_machine(address.ip()))
        .map(|address| address.ip().to_string())
        .collect();
    if !found.is_empty() && foreign.len() == found.len() {
        wrong.push(format!("listen_addr: no address of this machine: {}", foreign.join(", ")));
    }
    let http = http_addresses(settings).into_iter().filter_map(Result::ok).flatten();
    if let Some(both) = http.into_iter().find(|http| found.iter().any(|address| conflict(*http, *address))) {
        let clients = if both.port() == settings.listen_port { "listen_port" } else { "listen_port_replica" };
        wrong.push(format!("http_port is also {clients}: {}", both.port()));
    }
    if let Some(directory) = settings.unix_socket_dir.as_deref().filter(|directory| !directory.starts_with('@'))
        && !Path::new(directory).is_dir()
    {
        wrong.push(format!("unix_socket_dir: there is no directory {directory}"));
    }
    if let Some(group) = settings.unix_socket_group.as_deref()
        && matches!(Group::from_name(group), Ok(None))
    {
        wrong.push(format!("unix_socket_group: there is no group {group}"));
    }
    wrong
}

/// What a start would warn of, as far as it can be told without listening.
pub(crate) fn check_http(settings: &Settings) -> Vec<String> {
    let foreign = |addresses: Vec<SocketAddr>| {
        let foreign = addresses.into_iter().find(|address| !is_of_this_machine(address.ip()))?;
        Some(format!("http_listen_addr: {} is no address of this machine", foreign.ip()))
    };
    http_addresses(settings).into_iter().filter_map(|found| found.map_or_else(Some, foreign)).collect()
}

/// Whether a socket can have this address. The port is any other than that of the settings, which a running process may
/// have.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let bound = UdpSocket::bind((ip, 0));
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Whether the addresses of HTTP and of clients cannot both be listened on. Of `::`, HTTP takes connections of both address
/// families, and clients are taken by IPv6 only.
fn conflict(http: SocketAddr, clients: SocketAddr) -> bool {
    let (a, b) = (http.ip(), clients.ip());
    let is_same_family = a.is_ipv4() == b.is_ipv4();
    let is_any = a.is_unspecified() && (a.is_ipv6() || is_same_family) || b.is_unspecified() && is_same_family;
    http.port() == clients.port() && (a == b || is_any)
}

/// How many sockets the service manager has opened for this process (systemd's `sd_listen_fds`).
pub(crate) fn passed() -> u32 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_for_us = number("LISTEN_PID") == Some(std::process::id().into());
    let count = number("LISTEN_FDS").filter(|_| is_for_us).unwrap_or(0);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The settings of listeners.
fn wanted(settings: &Settings) -> Wanted {
    Wanted {
        backlog: settings.listen_backlog,
        is_port_shared: settings.so_reuseport,
        defer_accept_secs: settings.tcp_defer_accept,
        tuning: control::tuning(settings),
    }
}

/// Applies our settings to inherited listeners, after the old process has let go of them. Returns warnings about those
/// that cannot be changed.
pub(crate) fn adopt(settings: &Settings, listeners: &[Arc<Listener>]) -> Vec<String> {
    let wanted = wanted(settings);
    let mut warnings = Vec::new();
    for listener in listeners {
        let (name, adopted) = (name(listener), listener.adopt(&wanted));
        match adopted {
            Ok(staying) => warnings.extend(staying.iter().map(|setting| {
                format!("{setting} of {name} stays as the old process had it: only a start without -R changes that")
            })),
            Err(fault) => {
                warnings.push(format!("settings of {name} stay as the old process had them: {}", told(&fault)))
            }
        }
    }
    warnings
}

/// Opens the sockets that the settings ask for.
fn open_own(
    settings: &Settings,
    inherited: &mut Vec<Listener>,
    wanted: &Wanted,
    sockets: &mut ListeningSockets,
) -> Result<(), Fatal> {
    for item in &settings.listen_addr {
        for address in client_addresses(item, settings)? {
            if let Some(listener) = take(inherited, &Bound::Tcp(address)) {
                sockets.listeners.push(listener);
                continue;
            }
            match reactor::bind_tcp(address, wanted) {
                Ok(listener) => sockets.listeners.push(Arc::new(listener)),
                Err(fault) => sockets.warnings.push(format!("cannot listen on {address}: {}", told(&fault))),
            }
        }
    }
    if sockets.listeners.is_empty() && settings.listen_addr.iter().next().is_some() {
        let why = sockets.warnings.join("; ");
        let list = settings.listen_addr.iter().map(|item| &**item).collect::<Vec<_>>().join(",");
        return Err(Fatal(format!("failed to listen on any address in listen_addr list: {list} ({why})")));
    }
    if let Some(path) = socket_path(settings) {
        match take(inherited, &Bound::Unix(path.as_str().into())) {
            Some(listener) => sockets.listeners.push(listener),
            None => open_unix(settings, &path, wanted, sockets)?,
        }
    }
    Ok(())
}

/// Takes over the sockets of the service manager, which replace those of the settings.
fn open_passed(settings: &Settings, count: u32, wanted: &Wanted, sockets: &mut ListeningSockets) -> Result<(), Fatal> {
    if settings.listen_addr.iter().next().is_some() {
        sockets.warnings.push("sockets passed from service manager, listen_addr ignored".to_owned());
    }
    if settings
        .unix_socket_dir
        .as_deref()
        .is_some_and(|dir| Some(dir) != Settings::default().unix_socket_dir.as_deref())
    {
        sockets.warnings.push("sockets passed from service manager, unix_socket_dir ignored".to_owned());
    }
    if count > PASSED_MAX {
        return Err(Fatal(format!("service manager passes more than {PASSED_MAX} sockets (LISTEN_FDS)")));
    }
    for number in (PASSED_FROM..).take(count as usize) {
        let listener = reactor::passed(number, wanted).map_err(|fault| {
            let why = told(&fault);
            Fatal(format!("failed to set up socket passed from service manager (fd {number}): {why}"))
        })?;
        sockets.listeners.push(Arc::new(listener));
    }
    Ok(())
}

fn take(inherited: &mut Vec<Listener>, bound: &Bound) -> Option<Arc<Listener>> {
    let place = inherited.iter().position(|listener| listener.bound == *bound)?;
    Some(Arc::new(inherited.swap_remove(place)))
}

/// Takes over the file of the unix socket, with its group and permissions. Returns the error of setting these.
pub(crate) fn own_socket_file(settings: &Settings) -> (Option<SocketFile>, Result<(), String>) {
    match socket_path(settings).filter(|path| !path.starts_with('@')) {
        Some(path) => {
            let dressed = dress(settings, &path);
            (Some(SocketFile { path }), dressed)
        }
        None => (None, Ok(())),
    }
}

/// The address of a listener for the log.
pub(crate) fn name(listener: &Listener) -> String {
    match &listener.bound {
        Bound::Tcp(address) => address.to_string(),
        Bound::Unix(path) => format!("unix:{path}"),
    }
}

/// Listens for HTTP at the addresses of the settings, and returns warnings about failures. Must be called inside a
/// tokio runtime.
pub(crate) fn open_http(settings: &Settings) -> (Vec<TcpListener>, Vec<String>) {
    let (mut listeners, mut warnings) = (Vec::new(), Vec::new());
    for found in http_addresses(settings) {
        match found {
            Ok(addresses) => {
                for address in addresses {
                    match listen_http(address) {
                        Ok(listener) => listeners.push(listener),
                        Err(error) => {
                            warnings.push(format!("cannot listen for HTTP on {address}: {}", words_of(&error)))
                        }
                    }
                }
            }
            Err(text) => warnings.push(text),
        }
    }
    (listeners, warnings)
}

/// The addresses of each item of `http_listen_addr`, or why there are none; nothing if HTTP is disabled.
fn http_addresses(settings: &Settings) -> Vec<Result<Vec<SocketAddr>, String>> {
    let port = settings.http_port;
    let addresses = |item: &str| match item {
        // One socket for both address families.
        "*" => Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into()]),
        item => match (item, port).to_socket_addrs() {
            Ok(found) => Ok(found.collect()),
            Err(error) => Err(format!("cannot look up http_listen_addr {item}: {}", words_of(&error))),
        },
    };
    settings.http_listen_addr.iter().filter(|_| port != 0).map(|item| addresses(item)).collect()
}

/// The port is shared, so that the next process of an online restart can bind it before this one has let go.
fn listen_http(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    match socket.bind(address) {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => listen_http((Ipv4Addr::UNSPECIFIED, address.port()).into()),
        bound => bound.and_then(|()| socket.listen(HTTP_BACKLOG)),
    }
}

const HTTP_BACKLOG: u32 = 128;

/// The addresses of an item of `listen_addr`, with each port for clients.
fn client_addresses(item: &str, settings: &Settings) -> Result<Vec<SocketAddr>, Fatal> {
    let mut found = addresses(item, settings.listen_port)?;
    if settings.listen_port_replica != 0 {
        found.extend(addresses(item, settings.listen_port_replica)?);
    }
    Ok(found)
}

/// The addresses of an item of `listen_addr`.
fn addresses(item: &str, port: u16) -> Result<Vec<SocketAddr>, Fatal> {
    if item == "*" {
        return Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]);
    }
    let found = (item, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let found = found.map_err(|error| Fatal(format!("cannot look up listen_addr {item}: {}", words_of(&error))))?;
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// The name of the unix socket, with a leading `@` if it is abstract.
pub(crate) fn socket_path(settings: &Settings) -> Option<String> {
    settings.unix_socket_dir.as_ref().map(|dir| format!("{dir}/.s.PGSQL.{}", settings.listen_port))
}

fn open_unix(settings: &Settings, path: &str, wanted: &Wanted, sockets: &mut ListeningSockets) -> Result<(), Fatal> {
    let failed = |why: String| {
        Fatal(format!(
            "failed to create unix socket {path}: {why} (choose another unix_socket_dir, or remove the file)"
        ))
    };
    let is_file = !path.starts_with('@');
    if is_file {
        if fs::exists(format!("{path}.lock")).unwrap_or(false) {
            return Err(Fatal(format!("unix port {} is in use", settings.listen_port)));
        }
        // Only a socket counts as a leftover; any other file makes the bind below fail.
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(path).map_err(|error| failed(format!("unlink(): {}", words_of(&error))))?;
        }
    }
    // Nobody else may connect before the mode is set below. No other thread creates files yet.
    let before = umask(Mode::from_bits_truncate(0o077));
    let bound = reactor::bind_unix(path, wanted);
    umask(before);
    let listener = bound.map_err(|fault| failed(told(&fault)))?;
    if is_file {
        sockets.socket_file = Some(SocketFile { path: path.to_owned() });
        dress(settings, path).map_err(failed)?;
    }
    sockets.listeners.push(Arc::new(listener));
    Ok(())
}

/// Sets group and permissions of the socket file, in this order, so that the group's permissions are for the right
/// group.
fn dress(settings: &Settings, path: &str) -> Result<(), String> {
    if let Some(name) = &settings.unix_socket_group {
        let group = Group::from_name(name).map_err(|error| format!("getgrnam(): {}", error.desc()))?;
        let group = group.ok_or_else(|| format!("unknown group '{name}'"))?;
        chown(path, None, Some(group.gid.as_raw())).map_err(|error| format!("chown(): {}", words_of(&error)))?;
    }
    let mode = fs::Permissions::from_mode(settings.unix_socket_mode);
    fs::set_permissions(path, mode).map_err(|error| format!("chmod(): {}", words_of(&error)))
}

fn told(fault: &ListenFault) -> String {
    format!("{}(): {}", fault.step, words_of(&fault.error))
}

/// The first descriptor that a service manager passes.
const PASSED_FROM: i32 = 3;
/// More passed sockets are a mistake.
const PASSED_MAX: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_and_clients_conflict_where_one_socket_would_take_the_connections_of_the_other() {
        let conflict = |http: &str, clients: &str| {
            let [http, clients] = [http, clients].map(|address| address.parse().expect("an address"));
            super::conflict(http, clients)
        };
        for (one, other) in [("10.0.0.1:1", "10.0.0.1:1"), ("0.0.0.0:1", "10.0.0.1:1"), ("[::]:1", "[::1]:1")] {
            assert!(conflict(one, other) && conflict(other, one), "{one} {other}");
        }
        for (one, other) in [("10.0.0.1:1", "10.0.0.1:2"), ("10.0.0.1:1", "10.0.0.2:1"), ("0.0.0.0:1", "[::1]:1")] {
            assert!(!conflict(one, other) && !conflict(other, one), "{one} {other}");
        }
        assert!(conflict("[::]:1", "10.0.0.1:1") && !conflict("10.0.0.1:1", "[::]:1"));
    }

    #[test]
    fn a_star_is_every_address_of_both_families() {
        let all: Vec<SocketAddr> =
            vec!["0.0.0.0:1".parse().expect("an address"), "[::]:1".parse().expect("an address")];
        assert_eq!(addresses("*", 1), Ok(all));
        assert_eq!(addresses("127.0.0.1", 2), Ok(vec!["127.0.0.1:2".parse().expect("an address")]));
        assert_eq!(addresses("::1", 3), Ok(vec!["[::1]:3".parse().expect("an address")]));
    }

    #[test]
    fn the_unix_socket_is_named_after_the_port() {
        let settings = Settings { unix_socket_dir: Some("/run/pg".to_owned()), listen_port: 7, ..Settings::default() };
        assert_eq!(socket_path(&settings).as_deref(), Some("/run/pg/.s.PGSQL.7"));
        assert_eq!(socket_path(&Settings { unix_socket_dir: None, ..settings }), None);
    }

    #[test]
    fn nowhere_to_listen_on_is_the_end() {
        let settings = Settings { unix_socket_dir: None, ..Settings::default() };
        assert_eq!(open(&settings, Vec::new()).map(|_| ()), Err(Fatal("nowhere to listen on".to_owned())));
    }

    #[test]
    fn a_lock_beside_the_unix_socket_keeps_us_away() {
        let dir = std::env::temp_dir().join(format!("trunkline-sockets-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(".s.PGSQL.7.lock"), "").expect("a file");
        let unix_socket_dir = dir.to_str().map(str::to_owned);
        let settings = Settings { unix_socket_dir, listen_port: 7, ..Settings::default() };
        let outcome = open(&settings, Vec::new()).map(|_| ());
        fs::remove_dir_all(&dir).expect("removable");
        assert_eq!(outcome, Err(Fatal("unix port 7 is in use".to_owned())));
    }
}
