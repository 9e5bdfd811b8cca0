//! `-R`: an online restart, on the side of the new process.
//!
//! Always true: every step that can fail comes before the running process lets go; a failure until then ends this
//! process and not the running one.
//! Not here: the messages between the two (`control::successor`).

use base::counted;
use config::Settings;
use control::{HandedOver, PackedEvents, Predecessor};
use reactor::{Level, Socket};
use worker::letters::{ActiveConfig, Ids, Post, ToWorker};

use crate::identity;
use crate::last_words::{Fatal, say};
use crate::listening_sockets::{self, SocketFile};
use crate::pidfile::{self, Pidfile};

/// Finds the running process, if there is one.
///
/// # Errors
/// The running process cannot hand over, or the settings do not allow to find it.
pub(crate) fn find(settings: &Settings) -> Result<Option<Predecessor>, Fatal> {
    if listening_sockets::passed() > 0 {
        return Err(Fatal("cannot reboot under service manager".to_owned()));
    }
    let Some(socket) = listening_sockets::socket_path(settings) else {
        return Err(Fatal("cannot reboot if unix dir not configured".to_owned()));
    };
    Predecessor::find(&socket, identity::own_uid()).map_err(|why| Fatal(format!("online restart failed: {why}")))
}

/// Takes over all clients and servers, and wakes the workers. Returns the events of the running process.
///
/// # Errors
/// Something could not be taken over. The running process continues.
pub(crate) fn take_over(
    predecessor: &Predecessor,
    active: &ActiveConfig,
    workers: &[Post<ToWorker<Socket>>],
    ids: &Ids,
    shared_log: &control::SharedLog,
) -> Result<PackedEvents, Fatal> {
    let failed = |why| Fatal(format!("online restart failed: {why}"));
    let HandedOver { import, last_id, events } = predecessor.take_all().map_err(failed)?;
    let (clients, servers) = import.counts();
    ids.begin_behind(last_id);
    let shares = import.share_out(&active.homes);
    predecessor.relieve().map_err(failed)?;
    for (worker, imports) in workers.iter().zip(shares) {
        worker(ToWorker::Arrive(Box::new(imports)));
    }
    for worker in workers {
        worker(ToWorker::WakeUp);
    }
    say(
        shared_log,
        Level::Log,
        format_args!(
            "online restart: took over {} and {} from process {}",
            counted(clients, "client"),
            counted(servers, "server"),
            predecessor.pid()
        ),
    );
    Ok(events)
}

/// Takes over the socket file and the pidfile when the old process has ended. Errors are logged, and are no reason to
/// disconnect clients.
pub(crate) fn move_in(
    predecessor: &Predecessor,
    settings: &Settings,
    shared_log: &control::SharedLog,
) -> (Option<SocketFile>, Option<Pidfile>) {
    let (socket_file, dressed) = listening_sockets::own_socket_file(settings);
    if let Err(why) = dressed {
        say(shared_log, Level::Error, format_args!("unix socket: {why}"));
    }
    if !predecessor.is_gone() {
        say(shared_log, Level::Error, format_args!("the old process {} does not end", predecessor.pid()));
    }
    let Some(path) = &settings.pidfile else { return (socket_file, None) };
    match pidfile::check_old(path).and_then(|_| Pidfile::write(path)) {
        Ok(file) => (socket_file, Some(file)),
        Err(Fatal(why)) => {
            say(shared_log, Level::Error, format_args!("{why}"));
            (socket_file, None)
        }
    }
}
