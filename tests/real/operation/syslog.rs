//! Lines for syslog.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

/// A socket in the place of the syslog daemon.
struct Listener(UnixDatagram);

impl Listener {
    fn at(path: &Path) -> Self {
        let _ = fs::remove_file(path);
        let socket = UnixDatagram::bind(path).expect("a socket");
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("our own file takes permissions");
        socket.set_nonblocking(true).expect("a socket takes that");
        Self(socket)
    }

    /// Waits for a line that contains this text, and returns it.
    fn hears(&self, text: &str) -> String {
        let mut bytes = [0; 4096];
        wait_for(text, LIMIT, || {
            let line = self.0.recv(&mut bytes).ok().map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned());
            line.filter(|line| line.contains(text))
        })
    }
}

pub(crate) fn syslog_hears_what_the_log_says_and_a_reload_switches_it(house: &House) {
    let path = house.place.directory().join("syslog");
    let listener = Listener::at(&path);
    let socket = format!("syslog_socket = {}", path.display());
    let base = house.ini("syslog", &[&socket]);
    let ini = |settings: &[&str]| settings.iter().fold(base.clone(), |ini, setting| ini.set(setting));
    let pooler = house.start(&ini(&["syslog = 1", "syslog_ident = shop", "syslog_facility = local3"]));
    let pid = pooler.pid();
    assert!(listener.hears("process up: PgBouncer").starts_with("<158>"));
    pooler.client("u", "syslog").run("select 1");
    let line = listener.hears("login attempt: db=syslog user=u");
    assert!(line.contains(&format!(" shop[{pid}]: C-0x")), "{line}");
    pooler.console("nonsense");
    assert!(listener.hears("invalid command 'nonsense'").starts_with("<155>"), "an ERROR");
    // The pooler does not wait for a missing syslog daemon: all clients are served, and the log says what happened.
    drop(listener);
    wait_until("nobody listens", LIMIT, || {
        // A child process of another test may keep the socket open for a moment.
        pooler.client("u", "syslog").run("select 1");
        pooler.log().contains("takes no lines, they are lost: nobody listens")
    });
    let listener = Listener::at(&path);
    pooler.client("u", "syslog").run("select 1");
    assert!(listener.hears("takes lines again, ").contains(" were lost"));
    pooler.rewrite(&ini(&["syslog = 0"]));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    pooler.rewrite(&ini(&["syslog = 1", "syslog_facility = nonsense"]));
    pooler.client("v", "syslog").run("select 1");
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    pooler.console("more nonsense");
    // Lines from the time in between are lost. No other test uses this user, so such a line would be recognized.
    let heard = wait_for("a line", LIMIT, || {
        let mut bytes = [0; 4096];
        let count = listener.0.recv(&mut bytes).ok()?;
        let line = String::from_utf8_lossy(&bytes[..count]).into_owned();
        assert!(!line.contains("user=v") && !line.contains("syslog/v@"), "{line}");
        line.contains("invalid command 'more nonsense'").then_some(line)
    });
    assert!(heard.starts_with("<27>") && heard.contains(" pgbouncer["), "{heard}");
    pooler.await_log("login attempt: db=syslog user=v");
    pooler.await_log("syslog_facility = nonsense is none that is known, daemon is taken");
}
