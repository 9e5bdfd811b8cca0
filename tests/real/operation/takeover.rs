//! SUSPEND, the online restart (`-R`), and the service manager: clients that can be handed over do not notice, and a new
//! process that fails does no harm.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tests::client::{Client, other_keys, send_cancel};
use tests::message;
use tests::peer::Peer;
use tests::pooler::{HANDOVER_MAX, Pooler};
use tests::postgres::SECRET;
use tests::program::{Bench, finish, pgbench, psql, run};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn state(pooler: &Pooler) -> String {
    let cells = pooler.console("SHOW STATE").rows.into_iter().flatten().flatten();
    cells.collect::<Vec<_>>().join(" ")
}

/// Waits until the kernel accepts no more data for some client that does not read.
pub(crate) fn await_full(console: &mut Client) {
    let (mut before, mut times) = (Vec::new(), 0);
    wait_until("the kernel takes no more", LIMIT, || {
        let sockets = console.query("SHOW SOCKETS");
        let unsent: Vec<_> = (0..sockets.rows.len())
            .map(|row| sockets.named(row)["send_avail"].clone())
            .filter(|bytes| bytes != "0")
            .collect();
        // Data that is only on its way has moved on by the next look.
        times = if unsent.is_empty() || unsent != before { 0 } else { times + 1 };
        before = unsent;
        times == 20
    });
}

pub(crate) fn what_is_suspended_goes_on_where_it_stood(house: &House) {
    let pooler = house.pooler("take_suspend", &["default_pool_size = 2"]);
    let [mut inside, mut idle] = [pooler.client("u", "take_suspend"), pooler.client("u", "take_suspend")];
    inside.run("begin");
    let pid = inside.server_pid();
    let mut console = pooler.client("admin", "pgbouncer");
    assert_eq!(console.query("SUSPEND").tags, ["SUSPEND"]);
    assert_eq!(console.query("SHOW STATE").rows[2][1].as_deref(), Some("yes"));
    inside.ask("select 1");
    idle.ask("select 2");
    // New connections are neither accepted nor refused.
    let mut newcomer = Peer::tcp(pooler.address()).expect("the kernel keeps who knocks");
    newcomer.send(&message::startup(0, &[("user", "u"), ("database", "take_suspend")]));
    for peer in [&mut inside.peer, &mut idle.peer, &mut newcomer] {
        assert!(peer.frame_within(Duration::from_millis(200)).is_err(), "nothing is answered");
    }
    assert_eq!(console.query("SUSPEND").error().text, "already suspended/paused");
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!((inside.answer().value(), idle.answer().value()), ("1".to_owned(), "2".to_owned()));
    assert_eq!(inside.server_pid(), pid);
    let mut newcomer = Client::finish_login(newcomer, LIMIT).expect("let in");
    assert_eq!(newcomer.value("select 3"), "3");
}

pub(crate) fn who_does_not_read_is_closed_after_suspend_timeout(house: &House) {
    let pooler = house.pooler("take_slow", &["suspend_timeout = 1"]);
    let (mut slow, mut other) = (pooler.client("u", "take_slow"), pooler.client("u", "take_slow"));
    slow.ask("select repeat('x', 1000) from generate_series(1, 200000)");
    slow.peer.frame().expect("its answer has begun");
    let mut console = pooler.client("admin", "pgbouncer");
    // Until then the kernel accepts all data, and a client that is sent nothing more is at rest.
    await_full(&mut console);
    assert_eq!(console.query("SUSPEND").tags, ["SUSPEND"]);
    pooler.await_log("closing because: suspend_timeout (age=");
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!(other.value("select 1"), "1");
}

pub(crate) fn a_suspend_ends_with_the_last_console(house: &House) {
    let pooler = house.pooler("take_alone", &[]);
    let mut client = pooler.client("u", "take_alone");
    let mut console = pooler.client("admin", "pgbouncer");
    assert_eq!(console.query("SUSPEND").tags, ["SUSPEND"]);
    client.ask("select 1");
    drop(console);
    pooler.await_log("admin disappeared when suspended, doing RESUME");
    assert_eq!(client.answer().value(), "1");
}

pub(crate) fn everybody_goes_on_in_the_new_process(house: &House) {
    let ini = house.ini("take_all", &["default_pool_size = 4"]);
    let mut pooler = house.start(&ini);
    let mut idle = pooler.client("u", "take_all");
    idle.run("set application_name = 'idle one'");
    let mut by_unix = pooler.knock();
    by_unix.send(&message::startup(0, &[("user", "v"), ("database", "take_all")]));
    let mut by_unix = Client::finish_login(by_unix, LIMIT).expect("let in");
    let mut inside = pooler.client("u", "take_all");
    inside.run("begin");
    inside.run("create temporary table mine (a int)");
    let mut busy = pooler.client("u", "take_all");
    let mut holder = house.postgres.client("take_all");
    holder.run("select pg_advisory_lock(1)");
    busy.ask("select pg_advisory_xact_lock(1), 'was awaited'");
    let mut long = Client::login_by_3_2(pooler.knock(), "u", "take_all");
    let mut silent = Peer::tcp(pooler.address()).expect("the port answers");
    let mut half = pooler.client("u", "take_all");
    let query = message::query("select 'whole'");
    half.peer.send(&query[..7]);
    pooler.await_pool("take_all", "sv_active", "2");
    assert_eq!(pooler.console("DISABLE postgres").errors.len(), 1, "there is no such database");
    let pid = pooler.pid();

    pooler.restart_online();
    assert_ne!(pooler.pid(), pid);
    inside.run("insert into mine values (1)");
    inside.run("commit");
    assert_eq!(idle.value("show application_name"), "idle one");
    assert_eq!(by_unix.value("select current_user"), "v");
    half.peer.send(&query[7..]);
    assert_eq!(half.answer().value(), "whole");
    holder.run("select pg_advisory_unlock(1)");
    assert_eq!(busy.answer().rows[0][1].as_deref(), Some("was awaited"));
    silent.send(&message::startup(0, &[("user", "u"), ("database", "take_all")]));
    assert_eq!(Client::finish_login(silent, LIMIT).expect("let in").value("select 1"), "1");
    // Cancel keys from before stay valid: the query of this client, and no other, is cancelled.
    busy.ask("select pg_sleep(60)");
    house.postgres.await_running("take_all", "pg_sleep(60)");
    busy.cancel();
    assert_eq!(busy.answer().error().code, "57014");
    long.ask("select pg_sleep(61)");
    house.postgres.await_running("take_all", "pg_sleep(61)");
    for (pid, secret) in other_keys(&long.key) {
        send_cancel(pooler.address(), pid, &secret);
    }
    let running = "select count(*) from pg_stat_activity
        where datname = 'take_all' and state = 'active' and query = 'select pg_sleep(61)'";
    assert_eq!(house.postgres.value(running), "1", "a key that is not its own has hit it");
    send_cancel(pooler.address(), long.key.0, &long.key.1);
    assert_eq!(long.answer().error().code, "57014");
    assert_eq!(pooler.client("u", "take_all").value("select 2"), "2");
    let clients = pooler.console("SHOW CLIENTS");
    assert!(
        (0..clients.rows.len())
            .all(|row| clients.named(row)["addr"] == "127.0.0.1" || clients.named(row)["addr"] == "unix")
    );
    pooler.restart_online();
    assert_eq!(idle.value("select 3"), "3");
    assert!(pooler.socket().exists());
    pooler.signal(Signal::SIGQUIT);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    assert!(!pooler.socket().exists(), "it is its own, and goes with it");
}

pub(crate) fn sessions_go_on_in_the_new_process(house: &House) {
    let ini = house.ini("take_session", &["pool_mode = session", "workers = 3"]);
    let mut pooler = house.start(&ini);
    let mut client = pooler.client("u", "take_session");
    client.run("create temporary table mine (a int)");
    let pid = client.server_pid();
    pooler.rewrite(&ini.set("workers = 1"));
    pooler.restart_online();
    assert_eq!(client.server_pid(), pid);
    client.run("insert into mine values (1)");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("take_session", "pg_sleep");
    client.cancel();
    assert_eq!(client.answer().error().code, "57014");
    drop(client);
    assert_eq!(pooler.client("u", "take_session").value("select to_regclass('mine') is null"), "t", "it was reset");
}

/// World seed 5006141: a client's next query overtook the answer to the state probe, which had been sent behind the previous
/// statement already.
pub(crate) fn a_session_that_is_asked_about_is_known_in_the_new_process(house: &House) {
    let ini = house.ini("take_asked", &["pool_mode = transaction"]);
    let mut pooler = house.start(&ini);
    let mut holder = house.postgres.client("take_asked");
    holder.run("select pg_advisory_lock(1)");
    let given = [("user", "u"), ("database", "take_asked"), ("options", "-c app.mark=given")];
    let mut client = Client::try_login(pooler.address(), &given).expect("let in");
    // From here on the server has the setting, which is not sent again with the statement.
    assert_eq!(client.value("select current_setting('app.mark')"), "given");
    client.ask("select pg_advisory_lock(1), set_config('app.mark', null, false)");
    house.postgres.await_running("take_asked", "pg_advisory_lock(1), set_config");
    client.ask("select current_setting('app.mark')");
    pooler.restart_online();
    holder.run("select pg_advisory_unlock(1)");
    assert!(client.answer().errors.is_empty());
    assert_eq!(client.answer().value(), "given", "to which it was reset");
    assert_eq!(client.value("select pg_advisory_unlock(1)"), "t");
}

pub(crate) fn scram_keys_and_statements_go_along(house: &House) {
    let secret = house.postgres.value("select rolpassword from pg_authid where rolname = 'by_scram'");
    let settings = ["auth_type = scram-sha-256", "max_prepared_statements = 10"];
    let mut pooler = house.start(&house.ini("take_scram", &settings).secret("by_scram", &secret));
    let mut command = psql(&pooler, "by_scram", "take_scram");
    command.env("PGPASSWORD", SECRET).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("psql starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "select 'before';").expect("psql listens");
    stdin.flush().expect("psql listens");
    // A connected client may not have received its first answer yet.
    let has_answered = "select count(*) from pg_stat_activity where datname = 'take_scram' and state = 'idle' and query like '%before%'";
    wait_until("the first answer", LIMIT, || house.postgres.value(has_answered) == "1");
    // The login of the next server uses the SCRAM keys from the client's own login.
    house.postgres.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'take_scram'");
    house.postgres.await_servers("take_scram", 0);
    pooler.restart_online();
    writeln!(stdin, "select 'after';").expect("psql listens");
    drop(stdin);
    assert_eq!(finish(child, "psql", LIMIT).success(), "before\nafter\n");
}

pub(crate) fn who_waits_for_a_server_or_a_greeting_goes_on_waiting(house: &House) {
    // The login timeout of a waiting client is longer than the test's limits.
    let ini = house.ini("take_wait", &["default_pool_size = 1", "client_login_timeout = 300"]);
    let mut pooler = house.start(&ini.clone().database("nowhere = host=127.0.0.1 port=1 dbname=x"));
    let [mut holds, mut waits] = [pooler.client("u", "take_wait"), pooler.client("u", "take_wait")];
    holds.run("begin");
    waits.ask("select 'waited'");
    pooler.await_pool("take_wait", "cl_waiting", "1");
    let mut ungreeted = Peer::tcp(pooler.address()).expect("the port answers");
    ungreeted.send(&message::startup(2, &[("user", "u"), ("database", "nowhere")]));
    pooler.await_pool("nowhere", "cl_waiting", "1");
    pooler.restart_online();
    pooler.await_pool("nowhere", "cl_waiting", "1");
    pooler.await_pool("take_wait", "cl_waiting", "1");
    holds.run("commit");
    assert_eq!(waits.answer().value(), "waited");
    let there = house.line_as("nowhere", "take_wait");
    pooler.rewrite(&ini.database(&there));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    let mut greeted = Client::finish_login(ungreeted, MINUTE).expect("let in");
    assert_eq!(
        (greeted.key.1.len(), greeted.value("select 1").as_str()),
        (32, "1"),
        "it speaks protocol 3.2 here, too"
    );
}

pub(crate) fn transactions_on_secured_servers_are_waited_for(house: &House) {
    house.secure.postgres.database("take_secure");
    let ini = tests::pooler::Ini::new(&house.secure_line("secured", "take_secure")).set("server_tls_sslmode = require");
    let mut pooler = house.start(&ini.set("suspend_timeout = 8"));
    let [mut inside, mut idle] = [pooler.client("u", "secured"), pooler.client("u", "secured")];
    idle.run("select 1");
    inside.run("begin");
    let new = pooler.beside(&["-R"], &[]);
    pooler.await_log("the new process is ready, suspending");
    idle.ask("select 'later'");
    assert_eq!(inside.value("select 1"), "1");
    // The log names the connection that delays the restart.
    pooler.await_log("online restart waits for connections to come to rest: 1, C-0x");
    inside.run("commit");
    let mut old = std::mem::replace(&mut pooler, new);
    assert_eq!(old.await_end(HANDOVER_MAX).code(), Some(0));
    assert_eq!((idle.answer().value(), inside.value("select 2")), ("later".to_owned(), "2".to_owned()));
}

pub(crate) fn secured_clients_are_told_why_they_are_let_go(house: &House) {
    let authority = tests::authority::Authority::new("clients");
    let files = authority.signs("localhost", &["localhost"]).files(&house.place);
    let ini = house.ini("take_tls", &["client_tls_sslmode = allow"]);
    let ini = ini.set(&format!("client_tls_cert_file = {}", files.certificate.display()));
    let mut pooler = house.start(&ini.set(&format!("client_tls_key_file = {}", files.key.display())));
    let mut command = psql(&pooler, "u", "take_tls");
    command.env("PGSSLMODE", "require").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("psql starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "select 1;").expect("psql listens");
    pooler.await_pool("take_tls", "cl_active", "1");
    let mut plain = pooler.client("u", "take_tls");
    pooler.restart_online();
    assert_eq!(plain.value("select 1"), "1");
    let _ = writeln!(stdin, "select 2;");
    drop(stdin);
    let said = finish(child, "psql", LIMIT);
    assert!(said.err.contains("terminating connection due to an online restart"), "{said:?}");
}

pub(crate) fn a_new_process_that_cannot_serve_changes_nothing(house: &House) {
    let ini = house.ini("take_broken", &[]);
    let pooler = house.start(&ini);
    let mut client = pooler.client("u", "take_broken");
    client.run("begin");
    let good = pooler.ini_text();
    for (text, why) in [
        (good.replace("pool_mode = transaction", "pool_mode = swimming"), "cannot load config file"),
        (format!("{good}client_tls_sslmode = require\nclient_tls_cert_file = /nowhere\n"), "TLS setup failed"),
        (format!("{good}logfile = /nowhere/log\n"), "/nowhere/log"),
        (format!("{good}listen_addr = 192.0.2.1\n"), "failed to listen on any address"),
        (format!("{good}unix_socket_dir =\n"), "cannot reboot if unix dir not configured"),
    ] {
        pooler.rewrite_raw(&text);
        let mut new = pooler.beside(&["-R"], &[]);
        assert_eq!(new.await_end(LIMIT).code(), Some(1), "{why}");
        assert!(new.said().contains(why), "{why}: {}", new.said());
        assert_eq!(client.value("select 1"), "1");
    }
    assert!(pooler.socket().exists());
    pooler.rewrite_raw(&good);
    // With a paused database, connections cannot come to rest.
    assert_eq!(pooler.console("DISABLE take_broken").tags, ["DISABLE"]);
    let mut console = pooler.client("admin", "pgbouncer");
    client.run("commit");
    assert_eq!(console.query("PAUSE take_broken").tags, ["PAUSE"]);
    let mut new = pooler.beside(&["-R"], &[]);
    assert_eq!(new.await_end(LIMIT).code(), Some(1));
    let why = "cannot suspend with paused databases (Databases paused by name: take_broken.";
    assert!(new.said().contains(why), "{}", new.said());
    assert_eq!(console.query("RESUME take_broken").tags, ["RESUME"]);
    let mut pooler = pooler;
    pooler.restart_online();
    assert_eq!(client.value("select 1"), "1");
    let refused = Client::try_login(pooler.address(), &[("user", "u"), ("database", "take_broken")]).map(|_| ());
    assert_eq!(refused.expect_err("let in").text, "database \"take_broken\" is disabled");
}

/// A new process that speaks the handover protocol up to a step at which it dies.
pub(crate) const DYING: &str = r#"
import os, socket, struct, sys
path, step = sys.argv[1], int(sys.argv[2])
place = path + '.takeover'
if os.path.exists(place): os.remove(place)
door = socket.socket(socket.AF_UNIX); door.bind(place); door.listen()
console = socket.socket(socket.AF_UNIX); console.connect(path)
def read(s, n):
    b = b''
    while len(b) < n:
        p = s.recv(n - len(b))
        if not p: raise SystemExit('closed')
        b += p
    return b
def answer():
    while True:
        head = read(console, 5)
        body = read(console, struct.unpack('!I', head[1:])[0] - 4)
        if head[:1] == b'E': raise SystemExit(body)
        if head[:1] == b'Z': return
start = b'\0\3\0\0user\0pgbouncer\0database\0pgbouncer\0\0'
console.sendall(struct.pack('!I', len(start) + 4) + start); answer()
order = b'TAKEOVER 2\0'
console.sendall(b'Q' + struct.pack('!I', len(order) + 4) + order); answer()
if step == 0: os._exit(9)
hatch, _ = door.accept()
os.remove(place)
def hear():
    head, fds, _, _ = socket.recv_fds(hatch, 4, 250)
    while len(head) < 4: head += read(hatch, 4 - len(head))
    left, body = struct.unpack('!I', head)[0], b''
    while left:
        part, more, _, _ = socket.recv_fds(hatch, left, 250)
        if not part: raise SystemExit('closed')
        body += part; left -= len(part)
    return body
def say(what):
    hatch.sendall(struct.pack('!I', len(what)) + what)
assert hear().startswith(b'{"Hello"')
if step == 1: os._exit(9)
say(b'"Go"')
if step == 2: os._exit(9)
part = hear()
if step == 3: os._exit(9)
while not part.startswith(b'{"End"'): part = hear()
if step == 4: os._exit(9)
if step == 6:
    print('has everything', flush=True)
    sys.stdin.readline()
    try:
        say(b'"Done"')
        heard = hatch.recv(100)
    except OSError:
        heard = b''
    os._exit(8 if heard else 9)
say(b'"Nonsense"')
os._exit(9 if hatch.recv(1) == b'' else 8)
"#;

pub(crate) fn a_new_process_that_dies_at_any_step_changes_nothing(house: &House) {
    let mut pooler = house.pooler("take_dying", &[]);
    let [mut inside, mut idle] = [pooler.client("u", "take_dying"), pooler.client("u", "take_dying")];
    inside.run("begin");
    let pid = inside.server_pid();
    let failures = |pooler: &Pooler| pooler.log().matches("online restart failed, going on: ").count();
    for step in 0..6 {
        let python = house.place.command("/usr/bin/python3".as_ref(), "KILL");
        let socket = pooler.socket().display().to_string();
        let ended = run({ python }.args(["-c", DYING, &socket, &step.to_string()]), LIMIT);
        assert_eq!(ended.code(), 9, "{ended:?}");
        wait_until("it has been given up", LIMIT, || failures(&pooler) == step + 1);
        assert_eq!((inside.server_pid(), idle.value("select 1")), (pid.clone(), "1".to_owned()), "step {step}");
        assert_eq!(state(&pooler), "active yes paused no suspended no");
        assert_eq!(pooler.client("u", "take_dying").value("select 2"), "2");
    }
    pooler.restart_online();
    assert_eq!(inside.server_pid(), pid);
}

pub(crate) fn another_user_is_given_nothing(house: &House) {
    let mut pooler = house.pooler("take_stranger", &[]);
    // A client that knows an administrator's name may send this; but only the pooler's own system user could listen at that
    // place.
    assert_eq!(pooler.console("TAKEOVER 2").tags, ["TAKEOVER"]);
    pooler.await_log("online restart failed, going on: cannot reach the new process: No such file or directory");
    assert_eq!(pooler.console("TAKEOVER 1").error().text, "this process hands over in version 2, not 1");
    if nix::unistd::geteuid().is_root() {
        let place = format!("{}.takeover", pooler.socket().display());
        let door = UnixListener::bind(&place).expect("root may");
        std::os::unix::fs::chown(&place, None, None).expect("it is ours");
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("it is ours");
        assert_eq!(pooler.console("TAKEOVER 2").tags, ["TAKEOVER"]);
        door.set_nonblocking(true).expect("a socket takes that");
        let (mut stream, _) = wait_for("it comes", LIMIT, || door.accept().ok());
        stream.set_nonblocking(false).expect("a socket takes that");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket takes that");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("it goes");
        assert!(heard.is_empty());
        pooler.await_log("the new process is one of system user 0, not of ");
        // A client that connects to the new process before the old one does is disconnected, and the new process goes on
        // waiting for the old one.
        drop(door);
        std::fs::remove_file(&place).expect("it is ours");
        pooler.signal(Signal::SIGSTOP);
        let new = pooler.beside(&["-R"], &[]);
        let mut stranger = None;
        wait_until("the new process waits", LIMIT, || {
            stranger = UnixStream::connect(&place).ok();
            stranger.is_some()
        });
        pooler.signal(Signal::SIGCONT);
        let mut old = std::mem::replace(&mut pooler, new);
        assert_eq!(old.await_end(LIMIT * 3).code(), Some(0));
    }
    assert_eq!(pooler.client("u", "take_stranger").value("select 1"), "1");
}

pub(crate) fn other_settings_hold_for_who_is_taken_over(house: &House) {
    house.postgres.database("take_gone");
    house.postgres.database("take_moved");
    let ini = house.ini("take_kept", &["default_pool_size = 3"]);
    let mut pooler = house.start(&ini.clone().database(&house.line("take_gone")));
    let mut kept = [0, 1, 2].map(|_| pooler.client("u", "take_kept"));
    let mut gone = pooler.client("u", "take_gone");
    kept.iter_mut().for_each(|client| client.run("begin"));
    gone.run("select 1");
    // One database is removed, another has moved, and the pool is smaller.
    let elsewhere = house.line_as("take_kept", "take_moved");
    let mut text = pooler.ini_text().replace(&house.line("take_kept"), &elsewhere);
    text = text.replace(&format!("{}\n", house.line("take_gone")), "");
    text = text.replace("default_pool_size = 3", "default_pool_size = 1");
    pooler.rewrite_raw(&text);
    pooler.restart_online();
    assert_eq!(gone.answer().error().text, "database removed");
    for client in &mut kept {
        assert_eq!(client.value("select current_database()"), "take_kept", "as long as its transaction lasts");
        client.run("commit");
    }
    for client in &mut kept {
        assert_eq!(client.value("select current_database()"), "take_moved");
    }
    house.postgres.await_servers("take_kept", 0);
    house.postgres.await_servers("take_moved", 1);
}

pub(crate) fn pgbench_notices_nothing(house: &House) {
    for (mode, protocol) in [("transaction", "prepared"), ("session", "simple"), ("transaction", "extended")] {
        let database = format!("take_bench_{mode}_{protocol}");
        let settings = [&format!("pool_mode = {mode}")[..], "default_pool_size = 20", "max_prepared_statements = 20"];
        let mut pooler = house.start(&house.ini(&database, &settings));
        run(pgbench(&pooler, "u", &database).args(["-i", "-q"]), MINUTE).success();
        let socket = pooler.socket();
        let directory = socket.parent().expect("a directory").to_str().expect("a name in UTF-8");
        let benches = ["127.0.0.1", directory].map(|host| {
            let mut command = pgbench(&pooler, "u", &database);
            Bench::start(command.args(["-h", host, "-c", "4", "-M", protocol]), "")
        });
        for _ in 0..3 {
            await_transactions(house, &database);
            pooler.await_pool(&database, "cl_active", "8");
            pooler.restart_online();
        }
        await_transactions(house, &database);
        pooler.await_pool(&database, "cl_active", "8");
        benches.into_iter().for_each(Bench::end);
    }
}

/// Waits until some more transactions are counted; backends report them at most once a second.
fn await_transactions(house: &House, database: &str) {
    let sql = format!("select xact_commit from pg_stat_database where datname = '{database}'");
    let count = || house.postgres.value(&sql).parse::<u64>().expect("a count");
    let enough = count() + 20;
    wait_until("transactions are made", MINUTE, || count() > enough);
}

pub(crate) fn without_a_process_it_is_a_start(house: &House) {
    let mut pooler = house.pooler("take_none", &[]);
    pooler.signal(Signal::SIGQUIT);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    let pooler = pooler.beside(&["-R"], &[]);
    pooler.await_log("old process not found, try to continue normally");
    wait_until("it listens", LIMIT, || Peer::tcp(pooler.address()).is_ok());
    assert_eq!(pooler.client("u", "take_none").value("select 1"), "1");
}

pub(crate) fn the_service_manager_is_told(house: &House) {
    let name = format!("trunkline-takeover-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a free name");
    manager.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let hear = || {
        let mut buffer = [0; 1000];
        let bytes = manager.recv(&mut buffer).expect("the service manager is told");
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    };
    let mut pooler = house.pooler("take_notify", &["stats_period = 1", "pidfile ="]);
    pooler.signal(Signal::SIGQUIT);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    let mut pooler = pooler.beside(&[], &[("NOTIFY_SOCKET", &format!("@{name}"))]);
    assert_eq!(hear(), "READY=1");
    let status = hear();
    assert!(status.starts_with("STATUS=stats: 0 xacts/s, "), "{status}");
    pooler.signal(Signal::SIGHUP);
    let reloading = std::iter::repeat_with(hear).find(|text| !text.starts_with("STATUS=")).expect("endless");
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(hear(), "READY=1");
    // Sent before the old process ends, by the process that the service manager listens to: first the old one, then the new
    // one.
    let new = pooler.beside(&["-R"], &[("NOTIFY_SOCKET", &format!("@{name}"))]);
    let mut old = std::mem::replace(&mut pooler, new);
    assert_eq!(old.await_end(LIMIT * 3).code(), Some(0));
    // The STATUS line comes each second, without end.
    let letters = std::iter::repeat_with(hear).take(20);
    let mut told: Vec<_> = letters.filter(|text| !text.starts_with("STATUS=")).take(2).collect();
    told.sort();
    assert_eq!(told, [format!("MAINPID={}", pooler.pid()), format!("MAINPID={}\nREADY=1", pooler.pid())]);
    pooler.signal(Signal::SIGTERM);
    let stopping = std::iter::repeat_with(hear).find(|text| !text.starts_with("STATUS=")).expect("endless");
    assert_eq!(stopping, "STOPPING=1");
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
}

/// Opens sockets as a service manager does, and then executes the pooler.
const PASSING: &str = r#"
import os, socket, sys
program, ini, port, path, count, kind = sys.argv[1:7]
tcp = socket.socket(); tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(('127.0.0.1', int(port))); tcp.listen(16)
unix = socket.socket(socket.AF_UNIX, getattr(socket, kind)); unix.bind(path)
if kind == 'SOCK_STREAM': unix.listen(16)
a, b = os.dup2(tcp.fileno(), 50), os.dup2(unix.fileno(), 51)
os.dup2(50, 3); os.dup2(51, 4); os.close(50); os.close(51)
os.environ.update(LISTEN_FDS=count, LISTEN_PID=str(os.getpid()))
os.execv(program, [program, ini])
"#;

pub(crate) fn sockets_of_the_service_manager_are_used(house: &House) {
    let mut pooler = house.pooler("take_passed", &[]);
    pooler.signal(Signal::SIGQUIT);
    assert_eq!(pooler.await_end(LIMIT).code(), Some(0));
    let path = pooler.directory().join("passed.sock");
    let ini = pooler.directory().join("ini").display().to_string();
    let start = |count: &str, kind: &str| {
        let _ = std::fs::remove_file(&path);
        let mut command: Command = house.place.command("/usr/bin/python3".as_ref(), "KILL");
        let program = house.place.pooler().display().to_string();
        command.args(["-c", PASSING, &program, &ini, &pooler.port().to_string(), &path.display().to_string()]);
        command.args([count, kind]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let unfit = "failed to set up socket passed from service manager";
    for (count, kind, why) in [
        ("2147483647", "SOCK_STREAM", "passes more than 128 sockets (LISTEN_FDS)".to_owned()),
        ("99999999999", "SOCK_STREAM", "passes more than 128 sockets (LISTEN_FDS)".to_owned()),
        ("3", "SOCK_STREAM", format!("{unfit} (fd 5): ")),
        ("2", "SOCK_DGRAM", format!("{unfit} (fd 4): getsockopt(SO_TYPE)(): not a stream socket")),
    ] {
        assert_eq!(run(&mut start(count, kind), LIMIT).code(), 1, "{why}");
        pooler.await_log(&why);
    }
    let mut child = start("2", "SOCK_STREAM").spawn().expect("python starts");
    pooler.await_log("sockets passed from service manager, listen_addr ignored");
    pooler.await_log("sockets passed from service manager, unix_socket_dir ignored");
    pooler.await_log(&format!("socket passed from service manager: listening on unix:{}", path.display()));
    assert_eq!(pooler.client("u", "take_passed").value("select 1"), "1");
    let mut peer = Peer::unix(&path).expect("the socket of the service manager answers");
    peer.send(&message::startup(0, &[("user", "u"), ("database", "take_passed")]));
    assert_eq!(Client::finish_login(peer, LIMIT).expect("let in").value("select 2"), "2");
    tests::program::signal(child.id(), Signal::SIGQUIT);
    wait_for("it ends", LIMIT, || child.try_wait().expect("a child can be waited for"));
    assert!(path.exists(), "it is not ours to remove");
}
