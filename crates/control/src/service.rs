//! Notifies the service manager (systemd's `sd_notify` protocol) that we serve, reload or shut down, and of our status.
//!
//! Always true: notifying never blocks, and errors are ignored; without `NOTIFY_SOCKET` nothing is sent.
//! Not here: when the service manager is notified (`control`), sockets that it has opened
//! (`trunkline::listening_sockets`).

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};

/// A service manager, if there is one.
#[derive(Debug, Default)]
pub struct Service(Option<UnixDatagram>);

impl Service {
    /// The service manager that listens at this address: a path, or an abstract name with a leading `@`.
    #[must_use]
    pub fn at(address: &str) -> Self {
        let address = match address.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(address),
        };
        let connect = |address: SocketAddr| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect_addr(&address)?;
            Ok::<_, std::io::Error>(socket)
        };
        Self(address.and_then(connect).ok())
    }

    /// Reports that we serve.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports that the process `pid` has taken over from the previous main process, and serves.
    pub fn is_main(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}\nREADY=1"));
    }

    /// Reports that this process ends and `pid` becomes the main process. The new process reports that as well, but may
    /// be heard only after our end, or not at all if the service manager accepts messages of the main process only.
    pub(crate) fn goes_on_in(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}"));
    }

    /// Reports that we reload our settings; [`Service::ready`] follows.
    pub(crate) fn reloading(&self) {
        // systemd matches a reload with its READY=1 by this time.
        if let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) {
            let micros = now.tv_sec().saturating_mul(1_000_000).saturating_add(now.tv_nsec() / 1000);
            self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        }
    }

    /// Reports that we shut down.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Reports our status, a line for people.
    pub(crate) fn status(&self, line: &str) {
        self.tell(&format!("STATUS={line}"));
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.0 {
            // The service manager may be restarting.
            let _ = socket.send(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_is_told_in_its_words() {
        let name = format!("trunkline-service-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a free name");
        manager.set_nonblocking(true).expect("it need not be waited for");
        let service = Service::at(&format!("@{name}"));
        service.ready();
        service.reloading();
        service.status("stats: 1");
        service.stopping();
        service.goes_on_in(7);
        service.is_main(7);
        let mut told = Vec::new();
        let mut buffer = [0; 200];
        while let Ok(bytes) = manager.recv(&mut buffer) {
            told.push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
        }
        let reloading = told.remove(1);
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert_eq!(told, ["READY=1", "STATUS=stats: 1", "STOPPING=1", "MAINPID=7", "MAINPID=7\nREADY=1"]);
        Service::at("/nowhere/at/all").ready();
        Service::default().ready();
    }
}
