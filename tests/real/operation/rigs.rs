//! What `trunkline capacity` says of rigs with exactly one bottleneck, five times each: one for each resource that it names. They need a machine
//! with nothing else to do, so they are run only when they are named (`make wisdom`).
//!
//! Always true: a rig that cannot be built here is told as not run.
//! Not here: the decision itself, which a test of crate `ops` tries on recorded evidence.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tests::fake_server::{FakeServer, greeting};
use tests::message::frame;
use tests::pooler::Ini;
use tests::postgres::Postgres;

use crate::house::House;
use crate::operation::capacity::measure;
use crate::operation::command::Command;
use crate::operation::quota::Quota;

/// A rig with one bottleneck, and five runs on it.
fn limits(house: &House, words: &[&str], limit: &str) {
    limits_within(house, words, limit, 1);
}

/// The same, with so many attempts for each run, all of which are shown.
fn limits_within(house: &House, words: &[&str], limit: &str, attempts: u32) {
    for run_of_five in 1..=5 {
        let named = (1..=attempts).any(|attempt| {
            let ended = measure(house, &[words, &["--quick", "--minutes", "0.05", "--format", "json"]].concat());
            let json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|why| panic!("{why}: {ended:?}"));
            let told = &json["measurement"]["limit"];
            let (bound, most) = (&json["measurement"]["bound"]["rate"], &json["measurement"]["generator"]["rate_max"]);
            println!(
                "{limit}, run {run_of_five}: {}; {bound} requests a second, the generator alone {most}",
                told["resource"]
            );
            assert!(attempt < attempts || told["resource"] == limit, "run {run_of_five}: {told:#}");
            told["resource"] == limit
        });
        assert!(named, "run {run_of_five}");
    }
}

// Only when named.
/// Four resources of a pooler and a server, and nothing but them.
pub(crate) fn capacity_names_the_limit_of_each_rig(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    house.postgres.database("rigs");
    let mut owner = house.postgres.client("rigs");
    owner.run("create table counters (id int primary key, n bigint)");
    owner.run("insert into counters values (1, 0)");
    let pooler = |size: &str| {
        house.start(
            &Ini::new(&house.line("rigs")).set("pool_mode = transaction").set(&format!("default_pool_size = {size}")),
        )
    };
    let (large, small) = (pooler("20"), pooler("2"));
    let target = |port: u16| format!("host=127.0.0.1 port={port} user=u dbname=rigs");
    let console = |port: u16| format!("host=127.0.0.1 port={port} user=admin");
    let server = target(house.postgres.port());
    let of = |port: u16, pid: u32| {
        [
            "--target",
            &target(port),
            "--pooler",
            &console(port),
            "--server",
            &server,
            "--host",
            "--pooler-pid",
            &pid.to_string(),
        ]
        .map(str::to_owned)
    };
    let (large_words, small_words) = (of(large.port(), large.pid()), of(small.port(), small.pid()));
    let on = |words: &[String; 9], more: &[&str], limit: &str| {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        limits(house, &words, limit);
    };
    on(&small_words, &["--statement", "select pg_sleep(0.02)", "--slo", "p90 100ms", "--clients", "30"], "pool");
    let computing = "select count(*) from generate_series(1, 30000) a where a % 7 = 3";
    on(&large_words, &["--statement", computing, "--slo", "p90 500ms", "--clients", "30"], "processors");
    let hot = "update counters set n = n + 1 + 0 * length(pg_sleep(0.003)::text) where id = 1";
    // A pooler that has a fifth of a processor.
    match Quota::of_processor(large.pid(), 0.2) {
        Some(_quota) => on(&large_words, &["--slo", "p90 500ms", "--clients", "8"], "pooler"),
        None => println!("pooler: control groups cannot be made here"),
    }
    on(
        &large_words,
        &["--statement", hot, "--slo", "p90 500ms", "--clients", "20", "--allow-writes", "--production", "rigs"],
        "contention",
    );
}

// Only when named.
/// A server that answers at once by a unix socket, which costs less than the generator's own TCP does: the run says nothing of any target.
pub(crate) fn capacity_names_the_limit_of_its_own_generator(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    let directory = house.place.directory();
    let _responder = Responder::start(&directory.join(".s.PGSQL.1"));
    let target = format!("host={} port=1 user=u dbname=none", directory.display());
    // What the generator can do is measured before the run: both have to have had the same share of the machine.
    limits_within(house, &["--target", &target, "--slo", "p90 500ms", "--clients", "32"], "generator", 3);
}

// Only when named.
/// Clients behind a link of 20 MB/s each, who ask for 16 MB: four times as much as the kernel keeps for a connection.
pub(crate) fn capacity_names_the_limit_of_slow_readers(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    house.postgres.database("slow_readers");
    let port = house.postgres.port();
    let link = FakeServer::open(move |client| drop(carry_slowly(client, port)));
    let at = |port: u16, more: &str| format!("host=127.0.0.1 port={port} user=u dbname=slow_readers {more}");
    let (target, server) = (at(link.port(), "sslmode=disable"), at(port, ""));
    let statement = format!("select repeat('x', {ANSWER_BYTES})");
    let words = [
        "--target",
        &target,
        "--server",
        &server,
        "--host",
        "--statement",
        &statement,
        "--slo",
        "p90 2s",
        "--clients",
        "4",
    ];
    limits(house, &words, "client or network");
}

// Only when named.
/// A server whose disk writes fifty times a second, and transactions that have to be written before they are answered.
pub(crate) fn capacity_names_the_limit_of_a_slow_disk(house: &House) {
    let Some(_) = Command::of(house, "capacity") else { return };
    let mut postgres = Postgres::start(&house.place);
    for setting in ["fsync = on", "synchronous_commit = on"] {
        postgres.query(&format!("alter system set {setting}"));
    }
    postgres.crash();
    postgres.restart(&house.place);
    postgres.database("rigs");
    let Some(_quota) = Quota::of_disk(postgres.postmaster(), &house.place.directory(), 50) else {
        println!("disk: writes to the device of the scratch directory cannot be limited here");
        return;
    };
    let line = format!("rigs = host=127.0.0.1 port={} dbname=rigs", postgres.port());
    let pooler = house.start(&Ini::new(&line).set("pool_mode = transaction").set("default_pool_size = 20"));
    let at = |port: u16, more: &str| format!("host=127.0.0.1 port={port} {more}");
    let words = [
        "--target",
        &at(pooler.port(), "user=u dbname=rigs"),
        "--pooler",
        &at(pooler.port(), "user=admin"),
        "--server",
        &at(postgres.port(), "user=u dbname=rigs"),
        "--host",
        "--pooler-pid",
        &pooler.pid().to_string(),
        "--slo",
        "p90 2s",
        "--clients",
        "20",
        "--allow-writes",
        // A session of the run before may still wait for the disk.
        "--production",
        "rigs",
    ];
    limits(house, &words, "disk");
}

/// Passes on a client's bytes to a port, and what comes back as a link of [`LINK_BYTES`] a second would, which keeps little.
fn carry_slowly(mut client: TcpStream, port: u16) -> std::io::Result<()> {
    let server = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    server.set_recv_buffer_size(LINK_CHUNK)?;
    server.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let mut server = TcpStream::from(server);
    let (mut asked, mut asks) = (client.try_clone()?, server.try_clone()?);
    let there = std::thread::spawn(move || {
        let _ = std::io::copy(&mut asked, &mut asks);
        let _ = asks.shutdown(Shutdown::Both);
    });
    let mut chunk = vec![0; LINK_CHUNK];
    while let Ok(count @ 1..) = server.read(&mut chunk) {
        if client.write_all(&chunk[..count]).is_err() {
            break;
        }
        // The link's own speed, which is the rig.
        std::thread::sleep(Duration::from_secs_f64(count as f64 / LINK_BYTES));
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = there.join();
    Ok(())
}

/// A server on one thread that never sleeps and knows one answer.
struct Responder {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    fn start(path: &Path) -> Self {
        let listener = UnixListener::bind(path).expect("a path of our own");
        listener.set_nonblocking(true).expect("a listener");
        // The program may be another user's.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("our own file");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        Self { is_over, thread: Some(std::thread::spawn(move || respond(&listener, &over))) }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn respond(listener: &UnixListener, is_over: &AtomicBool) {
    let answer = [frame(b'I', &[]), frame(b'Z', b"I")].concat();
    let mut peers: Vec<(UnixStream, bool)> = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    for round in 0_u64.. {
        // Looking for somebody new costs as much as an answer.
        if round % 256 == 0 {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true).expect("a stream");
                peers.push((stream, false));
            }
        }
        let mut gone = None;
        for (place, (stream, is_known)) in peers.iter_mut().enumerate() {
            // A request is small, and the next one comes after its answer: it is in one piece.
            let goes_on = match stream.read(&mut bytes) {
                Ok(0) => false,
                Ok(_) if bytes[0] == b'X' => false,
                Ok(_) if *is_known => stream.write_all(&answer).is_ok(),
                Ok(_) => {
                    *is_known = true;
                    stream.write_all(&greeting()).is_ok()
                }
                Err(why) => why.kind() == ErrorKind::WouldBlock,
            };
            if !goes_on {
                gone = Some(place);
            }
        }
        gone.map(|place| peers.swap_remove(place));
    }
}

const LINK_BYTES: f64 = 20e6;
const LINK_CHUNK: usize = 1 << 16;
const ANSWER_BYTES: u32 = 16_000_000;
