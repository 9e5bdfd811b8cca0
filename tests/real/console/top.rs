//! `trunkline top`: the console in a terminal, and as text.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::sys::signal::Signal;
use tests::authority::Authority;
use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::program::{Ended, run, without_preferences};
use tests::runner::skip;
use tests::terminal::Terminal;
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

/// `trunkline top` with these arguments.
fn top(house: &House, args: &[&str]) -> Command {
    let mut command = Command::new(house.place.pooler());
    without_preferences(&mut command);
    command.arg("top").args(args).env_remove("NO_COLOR");
    command
}

/// The same for one pooler.
fn top_of(house: &House, pooler: &Pooler, args: &[&str]) -> Command {
    let mut command = top(house, &["-h", "127.0.0.1", "-p", &pooler.port().to_string(), "-U", "stats", "-i", "0.1"]);
    command.args(args);
    command
}

fn once(command: &mut Command) -> Ended {
    run(command.arg("--once"), LIMIT)
}

fn client(pooler: &Pooler, database: &str, application: &str) -> Client {
    let parameters = [("user", "u"), ("database", database), ("application_name", application)];
    Client::try_login(pooler.address(), &parameters).expect("a login")
}

fn is_ours(house: &House) -> bool {
    if !house.place.is_trunkline() {
        skip("PgBouncer has no such command");
    }
    house.place.is_trunkline()
}

pub(crate) fn one_picture_has_pools_waits_and_the_sentence_as_text(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_once", &["default_pool_size = 1"]);
    let mut thinker = client(&pooler, "top_once", "thinker\x1b]0;owned\x07");
    thinker.run("begin");
    let mut waiter = client(&pooler, "top_once", "waiter");
    waiter.ask("select 2");
    pooler.await_pool("top_once", "cl_waiting", "1");
    // The sentence names the waiting client as soon as the wait has lasted for some time.
    let pools = wait_for("the sentence", LIMIT, || {
        let picture = once(&mut top_of(house, &pooler, &[])).success();
        picture.contains("stands idle in a transaction").then_some(picture)
    });
    let words = |start: &str| pools.lines().find(|line| line.starts_with(start)).map(str::split_whitespace);
    let heading: Vec<&str> = words("database").expect("a heading").collect();
    let row: Vec<&str> = words("top_once").expect("the pool").collect();
    assert_eq!(heading[..6], ["database", "user", "cl_active", "cl_waiting", "sv_active", "sv_idle"], "{pools}");
    assert_eq!(row[..6], ["top_once", "u", "1", "1", "1", "0"], "{pools}");
    assert!(
        heading.contains(&"xact/s") && pools.lines().nth(1).is_some_and(|line| line.contains("top_once")),
        "{pools}"
    );
    // Characters in a client's names that a terminal would interpret are escaped.
    let clients = once(&mut top_of(house, &pooler, &["--view", "clients", "--filter", "OWNED"])).success();
    assert!(clients.contains("thinker") && clients.contains("(clients: 1 row)"), "{clients}");
    let waits = once(&mut top_of(house, &pooler, &["--view", "waits", "--sort", "what"])).success();
    assert!(waits.contains("idle in transaction") && waits.contains("waiter"), "{waits}");
    for text in [pools, clients, waits] {
        assert!(!text.chars().any(|character| character.is_control() && character != '\n'), "{text:?}");
    }
    thinker.run("commit");
    waiter.answer();
}

pub(crate) fn the_screen_hears_keys_and_leaves_the_terminal_as_it_was(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_keys", &["default_pool_size = 1"]);
    let mut thinker = client(&pooler, "top_keys", "thinker\x1b[2J\x1b]0;owned\x07");
    thinker.run("begin");
    let mut waiter = client(&pooler, "top_keys", "waiter");
    waiter.ask("select 2");
    let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
    let screen = terminal.await_text("stands idle in a transaction");
    assert!(screen.contains("1 pools") && screen.contains("cl_waitingv") && !terminal.is_restored(), "{screen}");
    terminal.press("2");
    terminal.await_text("waits: every server");
    terminal.press("/idle in");
    terminal
        .await_screen("one row", |screen| screen.contains("idle in transaction") && !screen.contains("waits: every"));
    terminal.press("\r");
    let screen = terminal.await_text("row 1 of 1");
    assert!(screen.contains("filter: idle in"), "{screen}");
    terminal.press("\r");
    let row = terminal.await_text("Esc goes back");
    assert!(row.contains("holder") && row.contains("top_keys"), "{row}");
    terminal.press("q");
    terminal.await_text("row 1 of 1");
    terminal.press("4");
    terminal.press("?");
    terminal.await_text("Keys:");
    terminal.press("q");
    terminal.press(" ");
    terminal.await_text("PAUSED");
    terminal.resize(6, 30);
    terminal.await_screen("a smaller screen", |screen| screen.lines().count() == 6 && screen.contains("4 stmts"));
    terminal.resize(24, 100);
    terminal.await_text("3 applications");
    // The whole screen is redrawn.
    terminal.press("\x0c");
    terminal.press("3");
    terminal.await_text("3 applications");
    terminal.press("q");
    assert_eq!(terminal.await_end().code(), Some(0));
    terminal.await_restored();
    let bytes = terminal.bytes();
    let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(has(b"\x1b[38;5;") && !has(b"owned\x07") && !has(b"thinker\x1b"), "{}", String::from_utf8_lossy(&bytes));
    thinker.run("commit");
    waiter.answer();
}

/// The pooler logged each end of `trunkline top` as a lost client.
pub(crate) fn the_console_is_left_with_terminate(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_leaves", &[]);
    let await_goodbyes = |count: usize| {
        wait_until("a console client that says goodbye", LIMIT, || {
            let log = pooler.log();
            let ends =
                log.lines().filter(|line| line.contains(": pgbouncer/stats@") && line.contains("closing because"));
            ends.clone().count() == count && ends.into_iter().all(|line| line.contains("client close request"))
        });
    };
    once(&mut top_of(house, &pooler, &[])).success();
    await_goodbyes(1);
    for (number, key) in [(2, "q"), (3, "\x03")] {
        let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
        terminal.await_text("All is well");
        terminal.press(key);
        assert_eq!(terminal.await_end().code(), Some(0));
        await_goodbyes(number);
    }
    let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
    terminal.await_text("All is well");
    terminal.signal(Signal::SIGTERM);
    assert_eq!(terminal.await_end().code(), Some(143));
    await_goodbyes(4);
}

pub(crate) fn no_color_takes_the_colours_away(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_plain", &[]);
    let mut command = top_of(house, &pooler, &[]);
    let mut terminal = Terminal::start(command.env("NO_COLOR", "1"), 24, 80);
    terminal.await_text("All is well");
    terminal.press("4");
    terminal.await_text("4 stmts");
    terminal.press("\x03");
    assert_eq!(terminal.await_end().code(), Some(0));
    terminal.await_restored();
    let bytes = terminal.bytes();
    let colours: [&[u8]; 2] = [b"\x1b[38;", b"\x1b[48;"];
    assert!(!bytes.windows(5).any(|window| colours.contains(&window)), "{}", String::from_utf8_lossy(&bytes));
}

pub(crate) fn a_signal_restores_the_terminal(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_signal", &[]);
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
        terminal.await_text("All is well");
        terminal.signal(signal);
        assert_eq!(terminal.await_end().code(), Some(code));
        terminal.await_restored();
    }
}

pub(crate) fn a_lost_console_is_told_and_found_again(house: &House) {
    if !is_ours(house) {
        return;
    }
    let mut pooler = house.pooler("top_lost", &[]);
    let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
    terminal.await_text("All is well");
    pooler.signal(Signal::SIGQUIT);
    pooler.await_end(LIMIT);
    let screen = terminal.await_text("Trying again in");
    assert!(screen.contains("No connection:") && screen.contains("pgbouncer"), "{screen}");
    pooler.start_again();
    terminal.await_text("All is well");
    terminal.press("q");
    assert_eq!(terminal.await_end().code(), Some(0));
}

pub(crate) fn a_mistake_is_one_line(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_wrong", &[]);
    let mut nobody = top_of(house, &pooler, &[]);
    let refused = tests::place::free_port().to_string();
    let missing = pooler.directory().join("nothing.ini").display().to_string();
    for (command, wanted) in [
        (nobody.args(["-U", "u"]), "FATAL: not allowed (the user has to be one of admin_users or stats_users"),
        (&mut top(house, &["-h", "127.0.0.1", "-p", &refused]), "Connection refused"),
        (&mut top(house, &["-h", "/nowhere"]), "/nowhere/.s.PGSQL.6432: No such file or directory"),
        (&mut top(house, &[&missing]), "cannot read"),
        (&mut top(house, &["host=h nonsense=1"]), "nonsense"),
    ] {
        let ended = once(command);
        assert_eq!((ended.code(), ended.err.lines().count()), (1, 1), "{ended:?}");
        assert!(ended.err.starts_with("trunkline top: ") && ended.err.contains(wanted), "{ended:?}");
    }
    let unsorted = once(&mut top_of(house, &pooler, &["--sort", "nothing"])).failure();
    assert!(
        unsorted.contains("there is no column \"nothing\" to sort by; the columns are database, user,"),
        "{unsorted}"
    );
    let ended = run(&mut top(house, &["--fast"]), LIMIT);
    assert!(
        ended.code() == 1 && ended.err.contains("--fast") && ended.err.contains("trunkline top --help"),
        "{ended:?}"
    );
    let ended = run(&mut top_of(house, &pooler, &[]), LIMIT);
    assert!(ended.code() == 1 && ended.err.contains("not a terminal; --once"), "{ended:?}");
    assert!(run(&mut top(house, &["--help"]), LIMIT).success().starts_with("Usage: trunkline top"));
}

pub(crate) fn a_password_comes_from_the_environment_a_file_or_the_url(house: &House) {
    if !is_ours(house) {
        return;
    }
    let ini = house.ini("top_password", &["auth_type = scram-sha-256"]).secret("stats", "a:secret");
    let pooler = house.start(&ini);
    let file = |name: &str, text: &str| {
        let path = pooler.directory().join(name);
        house.place.write_secret(&path, text);
        path
    };
    let right = file("right", "127.0.0.1:*:pgbouncer:stats:a\\:secret\n");
    let open = pooler.directory().join("open");
    house.place.write(&open, "*:*:*:*:a\\:secret\n");
    once(top_of(house, &pooler, &[]).env("PGPASSWORD", "a:secret")).success();
    once(top_of(house, &pooler, &[]).env("PGPASSFILE", &right)).success();
    let url = format!("postgres://stats:a%3Asecret@127.0.0.1:{}/pgbouncer", pooler.port());
    once(&mut top(house, &[&url])).success();
    let wrong = once(top_of(house, &pooler, &[]).env("PGPASSWORD", "b")).failure();
    assert!(wrong.contains("FATAL: SASL authentication failed"), "{wrong}");
    let none = once(&mut top_of(house, &pooler, &[])).failure();
    assert!(none.contains("the console asks for a password: set PGPASSWORD"), "{none}");
    let others = once(top_of(house, &pooler, &[]).env("PGPASSFILE", &open)).failure();
    assert!(others.contains("is not used: others may read it"), "{others}");
}

pub(crate) fn a_configuration_says_where_its_pooler_is_and_a_socket_will_do(house: &House) {
    if !is_ours(house) {
        return;
    }
    let pooler = house.pooler("top_ini", &[]);
    let ini = pooler.directory().join("ini").display().to_string();
    let by_ini = once(&mut top(house, &[&ini, "-U", "stats"])).success();
    assert!(by_ini.starts_with(&pooler.socket().display().to_string()), "{by_ini}");
    let (directory, port) = (pooler.directory().display().to_string(), pooler.port().to_string());
    let by_socket = once(top(house, &["-U", "stats"]).env("PGHOST", &directory).env("PGPORT", &port)).success();
    assert!(by_socket.starts_with(&pooler.socket().display().to_string()), "{by_socket}");
}

pub(crate) fn the_way_to_the_console_is_encrypted_and_checked(house: &House) {
    if !is_ours(house) {
        return;
    }
    let authority = Authority::new("an authority");
    let files = authority.signs("pooler", &["127.0.0.1"]).files(&house.place);
    let ini = house.ini("top_tls", &["client_tls_sslmode = require"]);
    let ini = ini.set(&format!("client_tls_cert_file = {}", files.certificate.display()));
    let pooler = house.start(&ini.set(&format!("client_tls_key_file = {}", files.key.display())));
    // As with libpq, `prefer` uses TLS where the server offers it.
    once(&mut top_of(house, &pooler, &[])).success();
    let ours = authority.file(&house.place);
    once(top_of(house, &pooler, &[]).env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", &ours)).success();
    let others = Authority::new("another").file(&house.place);
    let refused =
        once(top_of(house, &pooler, &[]).env("PGSSLMODE", "verify-ca").env("PGSSLROOTCERT", &others)).failure();
    assert!(refused.contains("certificate"), "{refused}");
    let plain = once(top_of(house, &pooler, &[]).env("PGSSLMODE", "disable")).failure();
    assert!(plain.contains("FATAL"), "{plain}");
}

/// A console that answers `SHOW POOLS` with so many rows.
fn boundless(rows: usize) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("a port").port();
    thread::spawn(move || {
        let mut peer = Peer::accept(&listener).expect("a client");
        // The driver asks for TLS first.
        peer.packet().expect("SSLRequest");
        peer.send(b"N");
        peer.packet().expect("StartupMessage");
        let ready = message::frame(b'Z', b"I");
        peer.send(&[message::frame(b'R', &[0, 0, 0, 0]), ready.clone()].concat());
        while let Ok(question) = peer.frame() {
            let is_pools = question.body.starts_with(b"SHOW POOLS");
            let column = [b"database\0".as_slice(), &[0; 6], &25_u32.to_be_bytes(), &[255; 6], &[0; 2]].concat();
            let mut answer = message::frame(b'T', &[[0, 1].as_slice(), &column].concat());
            let value = if is_pools { "x".repeat(1000) + "\x1b[2J" } else { "A console".to_owned() };
            let length = u32::try_from(value.len()).expect("short").to_be_bytes();
            let row = message::frame(b'D', &[[0, 1].as_slice(), &length, value.as_bytes()].concat());
            (0..if is_pools { rows } else { 1 }).for_each(|_| answer.extend_from_slice(&row));
            answer.extend(message::frame(b'C', b"SHOW\0"));
            if peer.try_send(&[answer, ready.clone()].concat()).is_err() {
                return;
            }
        }
    });
    port
}

pub(crate) fn an_answer_without_end_is_cut(house: &House) {
    if !is_ours(house) {
        return;
    }
    let of = |rows: usize| {
        let port = boundless(rows).to_string();
        once(&mut top(house, &["-h", "127.0.0.1", "-p", &port, "-U", "u"]))
    };
    let long = of(20_000).success();
    // 8 MiB of values of 1,007 bytes each.
    assert!(long.contains("(pools: 8331 rows, 11669 more left out)"), "{}", &long[long.len() - 100..]);
    assert!(!long.contains('\x1b') && long.contains("xx\\x1b[2J"));
    let endless = of(70_000).failure();
    assert!(endless.contains("an answer is longer than 64 MiB"), "{endless}");
}

pub(crate) fn pgbouncers_console_shows_what_it_has(house: &House) {
    let pgbouncer = Path::new("/usr/sbin/pgbouncer");
    if !is_ours(house) {
        return;
    }
    if !pgbouncer.is_file() {
        return skip("PgBouncer is not installed");
    }
    let pooler = house.start(&Ini::new(&house.line("postgres")).set("default_pool_size = 1").program(pgbouncer));
    let mut holder = pooler.client("u", "postgres");
    holder.run("begin");
    let mut waiter = pooler.client("u", "postgres");
    waiter.ask("select 1");
    pooler.await_pool("postgres", "cl_waiting", "1");
    for view in ["pools", "stats", "clients", "servers", "databases"] {
        let text = once(&mut top_of(house, &pooler, &["--view", view])).success();
        assert!(text.contains("postgres") && text.contains("1 client has waited"), "{text}");
    }
    let mut terminal = Terminal::start(&top_of(house, &pooler, &[]), 24, 80);
    terminal.await_text("1 client has waited");
    terminal.press("2");
    terminal.await_text("SHOW WAITS: ERROR: invalid command 'SHOW WAITS'");
    terminal.press("5");
    terminal.await_text("waiting");
    terminal.press("q");
    assert_eq!(terminal.await_end().code(), Some(0));
    holder.run("commit");
    waiter.answer();
    // A table that the pooler does not have is requested only when its view is opened, so that the pooler's log has no
    // errors that no user has caused.
    let log = pooler.log();
    assert!(log.contains("invalid command 'SHOW WAITS'") && !log.contains("'SHOW CHURN'"), "{log}");
}
