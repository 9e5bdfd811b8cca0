//! Servers with very long answers to the pooler's own queries, about a session or about the functions of a database.
//!
//! Always true: the memory of the pooler stays within its limit, the client is served on, and a client of another database
//! notices nothing.
//! Not here: answers to `auth_query` (`hostile/owners.rs`).

use std::time::Duration;

use tests::client::Client;
use tests::fake_server::{FakeServer, greeting};
use tests::message::{Complaint, frame};
use tests::peer::{Lost, Peer};
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::hostile::bystander::{Bystander, RunQueue, Seen};
use crate::house::House;

/// A pooler with one worker, and a client of another database than the one under test.
struct Trial {
    pooler: Pooler,
    bystander: Bystander,
    memory_kb: u64,
}

impl Trial {
    fn begin(house: &House, line: &str, other: &str, settings: &[&str]) -> Self {
        let ini = house.ini(other, &["pool_mode = transaction", "workers = 1"]).database(line);
        let pooler = house.start(&settings.iter().fold(ini, |ini, setting| ini.set(setting)));
        let bystander = Bystander::begin(pooler.address(), "u", other, RunQueue::of(pooler.pid(), "worker"));
        let memory_kb = pooler.memory_kb("VmRSS");
        Self { pooler, bystander, memory_kb }
    }

    /// Checks that the bystander was served all the time, and that memory has not grown by more than this.
    fn end(self, mib: u64) -> Pooler {
        let Seen { longest, is_lost, .. } = self.bystander.end();
        assert!(!is_lost && longest < WAIT_MAX, "the bystander waited {longest:?}");
        let grown = self.pooler.memory_kb("VmHWM").saturating_sub(self.memory_kb) / 1024;
        assert!(grown <= mib, "the pooler has grown by {grown} MiB");
        self.pooler
    }
}

/// 57 MB of SQL in one session. Previously every state probe returned all of it, and the pooler kept it until the end of the
/// answer.
pub(crate) fn a_session_of_thousands_of_long_statements_keeps_its_server(house: &House) {
    house.postgres.database("answers_statements");
    let trial = Trial::begin(house, &house.line("answers_statements"), "answers_beside_statements", &[]);
    let mut client = trial.pooler.client("u", "answers_statements");
    client.run(
        "do $$ begin for i in 1..3000 loop execute format('prepare s%s as select %L', i, repeat('x', 19000)); end loop; end $$",
    );
    for _ in 0..3 {
        assert_eq!(client.value("execute s3000").len(), 19_000);
        client.run("do $$ begin perform set_config('app.tenant', '7', false); end $$");
        assert_eq!(client.value("select count(*) from pg_prepared_statements where from_sql"), "3000");
    }
    let pooler = trial.end(16);
    let pins = pooler.console("show pins").rows;
    // Of a thousand listed pins some could follow the client, and one entry says that there are more.
    assert!((990..=998).contains(&pins.len()), "{} are kept for", pins.len());
    client.run("deallocate all");
    assert_eq!(client.value("select current_setting('app.tenant')"), "7");
    pooler.await_pool("answers_statements", "sv_idle", "1");
}

/// 380 MB of function bodies.
pub(crate) fn functions_beyond_what_is_read_may_do_anything(house: &House) {
    house.secure.postgres.database("answers_functions");
    let mut direct = house.secure.postgres.client("answers_functions");
    direct.run("set check_function_bodies = off");
    // A statement per hundred functions: all of them take PostgreSQL 13 and older 5 s of processor time, which other tests
    // share.
    for last in (100..=2000).step_by(100) {
        direct.run(&format!(
            "do $do$ begin for i in {last} - 99..{last} loop execute format('create function f%s() returns int language plpgsql as %L', i,
             'begin return 1; end -- ' || repeat('x ', 95000)); end loop; end $do$",
        ));
    }
    let line = house.secure_line("answers_functions", "answers_functions");
    for (way, settings) in [
        ("uring", ["io_backend = auto", "server_tls_sslmode = disable"]),
        ("epoll", ["io_backend = epoll", "server_tls_sslmode = disable"]),
        ("tls", ["io_backend = auto", "server_tls_sslmode = prefer"]),
    ] {
        let trial = Trial::begin(house, &line, &format!("answers_beside_functions_{way}"), &settings);
        let mut one = trial.pooler.client("u", "answers_functions");
        assert_eq!(one.value("select f1()"), "1");
        trial.pooler.await_log("database has functions with longer texts than are read: these may do anything");
        let pins = || trial.pooler.console("show pins").rows.len();
        assert_eq!(one.value("select f2()"), "1");
        assert_eq!((one.value("select f3()"), pins()), ("1".to_owned(), 0), "what these do has been read");
        assert_eq!(one.value("select f2000()"), "1");
        wait_until("what f2000 does has not been read", LIMIT, || pins() == 1);
        trial.end(40);
    }
}

/// A server that answers a client's query, and the pooler's own query after it without end, with these messages.
fn endless(words: impl Fn(u64) -> Vec<u8> + Clone + Send + Sync + 'static) -> FakeServer {
    FakeServer::open(move |stream| {
        let _ = Peer::accepted(stream).map(|mut peer| answer(&mut peer, &words));
    })
}

fn answer(peer: &mut Peer, words: &impl Fn(u64) -> Vec<u8>) -> Result<(), Lost> {
    peer.packet()?;
    peer.send(&greeting());
    let mut has_served = false;
    loop {
        let asked = peer.frame()?;
        let is_ours = String::from_utf8_lossy(&asked.body).contains("trunkline: ");
        if is_ours && has_served {
            break;
        }
        has_served |= !is_ours;
        peer.send(&[frame(b'C', b"SELECT 0\0"), frame(b'Z', b"I")].concat());
    }
    for number in 0.. {
        let many = (0..1000).map(|at| words(number * 1000 + at)).collect::<Vec<_>>().concat();
        if peer.try_send(&many).is_err() {
            break;
        }
    }
    Ok(())
}

fn row(about: &str, name: &str, text: &str) -> Vec<u8> {
    let field = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    frame(b'D', &[&[0, 4][..], &field(about), &field(name), &field(text), &(-1_i32).to_be_bytes()].concat())
}

/// Neither rows of any kind, nor errors, nor asynchronous messages.
pub(crate) fn a_server_that_answers_without_end_is_closed(house: &House) {
    type Words = fn(u64) -> Vec<u8>;
    let all: [(&str, Words); 6] = [
        ("settings", |at| row("s", &format!("app.x{at}"), &"x".repeat(1000))),
        ("statements", |at| row("p", &format!("s{at}"), &"x".repeat(1000))),
        ("names", |at| row("g", &format!("f{at}{}", "x".repeat(50)), "")),
        ("functions", |at| row("f", "f", &format!("perform f{at}(); {}", "x ".repeat(500)))),
        ("errors", |_| frame(b'E', b"SERROR\0C42000\0Mno\0\0")),
        ("notices", |_| frame(b'N', b"SNOTICE\0C00000\0Mno\0\0")),
    ];
    for (what, words) in all {
        let server = endless(words);
        let line = format!("answers_liar = host=127.0.0.1 port={} user=u", server.port());
        let settings = ["server_tls_sslmode = disable", "server_mend_timeout = 60", "server_login_retry = 0.1"];
        let trial = Trial::begin(house, &line, &format!("answers_apart_{what}"), &settings);
        let mut client = Client::login(trial.pooler.address(), "u", "answers_liar");
        client.run("select set_config('a.' || now(), '1', false)");
        let told = client.peer.frame().expect("its client is told");
        assert_eq!((told.tag, Complaint::read(&told).code), (b'E', "08006".to_owned()), "{what}");
        trial
            .pooler
            .await_log("answer without end to a query of our own, it is closed (host 127.0.0.1, more than 64 MiB)");
        trial.pooler.await_log("answers_liar/u@127.0.0.1:");
        trial.end(40);
    }
}

/// Longer than any turn may take, in a debug build on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(2);
