//! Many clients, databases, or bytes; and too few descriptors, or too little disk space.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::{Lost, Peer};
use tests::pooler::Ini;
use tests::program::run;
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

// Alone.
pub(crate) fn five_thousand_clients_share_ten_servers(house: &House) {
    let room = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    if room < CLIENTS as u64 + 200 {
        return skip("fewer than 5,200 descriptors are allowed here");
    }
    let settings = ["default_pool_size = 10", "max_client_conn = 5100", "listen_backlog = 1024", "log_connections = 0"];
    let pooler = house.pooler("crowd", &settings);
    let mut peers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
            peer.send(&message::startup(0, &[("user", "u"), ("database", "crowd")]));
            peer
        })
        .collect();
    let mut clients: Vec<_> = peers
        .drain(..)
        .map(|peer| Client::finish_login(peer, Duration::from_secs(30)).expect("the login succeeds"))
        .collect();
    for round in 0..2 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.ask(&format!("select {}", number + round));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.answer_within(Duration::from_secs(60));
            assert_eq!(answer.value(), (number + round).to_string(), "the answer of somebody else");
        }
        assert!(house.postgres.servers("crowd") <= 10);
    }
    drop(clients);
    pooler.await_pool("crowd", "cl_active", "0");
    assert_eq!(pooler.client("u", "crowd").value("select 1"), "1");
}

// Alone.
pub(crate) fn a_row_of_64_mb_passes_in_flat_memory(house: &House) {
    let pooler = house.pooler("crowd_row", &[]);
    let mut client = pooler.client("u", "crowd_row");
    let before = warm(&mut client, &pooler);
    client.ask("select repeat('x', 64 * 1024 * 1024)");
    assert_eq!(longest(&mut client), 64 * 1024 * 1024 + 6);
    let text = "y".repeat(64 * 1024 * 1024);
    assert_eq!(client.value(&format!("select length('{text}')")), text.len().to_string());
    expect_flat(&pooler, before);
}

// Only when named.
pub(crate) fn a_row_of_nearly_1_gib_passes_in_flat_memory(house: &House) {
    let pooler = house.pooler("crowd_gib", &[]);
    let mut client = pooler.client("u", "crowd_gib");
    let before = warm(&mut client, &pooler);
    // PostgreSQL builds a row in one buffer, which ends just below 1 GiB.
    client.ask("select repeat('x', 500 * 1024 * 1024), repeat('y', 500 * 1024 * 1024)");
    assert_eq!(longest(&mut client), 1_000 * 1024 * 1024 + 10);
    expect_flat(&pooler, before);
}

// Alone.
pub(crate) fn ten_thousand_databases_are_read_in_a_second(house: &House) {
    let ini = (0..10_000).fold(Ini::new(&house.line("postgres")), |ini, number| {
        ini.database(&format!("d{number} = host=127.0.0.1 port={} dbname=postgres pool_size=5", house.postgres.port()))
    });
    let begun = Instant::now();
    let pooler = house.start(&ini);
    let took = begun.elapsed();
    // An unoptimized build gets more time: the limit of a second is for the release build.
    let limit = if cfg!(debug_assertions) { 4 } else { 1 };
    assert!(took < Duration::from_secs(limit), "the start took {took:?}");
    assert_eq!(pooler.client("u", "d9999").value("select 1"), "1");
}

// Alone.
pub(crate) fn without_descriptors_old_clients_go_on_and_new_ones_are_refused(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer does not accept what it cannot hold, and says nothing");
    }
    house.postgres.database("crowd_files");
    for kernel in KERNELS {
        let ini = Ini::new(&house.line("crowd_files")).set("max_client_conn = 1000").set("workers = 1").set(kernel);
        let pooler = house.start(&ini.descriptors(64));
        let mut old: Vec<_> = (0..5).map(|_| pooler.client("u", "crowd_files")).collect();
        old.iter_mut().for_each(|client| client.run("select 1"));
        let mut crowd: Vec<_> = (0..80).filter_map(|_| knock(pooler.address(), "crowd_files")).collect();
        for client in &mut old {
            assert_eq!(client.value("select 2"), "2");
        }
        // The last clients find no descriptor free, and receive the error without delay.
        let last = crowd.last_mut().expect("the kernel still takes connections");
        let answer = last.frame_within(Duration::from_secs(3)).unwrap_or_else(|lost| panic!("with {kernel}: {lost}"));
        let complaint = Complaint::read(&answer);
        assert_eq!((answer.tag, complaint.code.as_str()), (b'E', "53300"), "with {kernel}: {complaint:?}");
        assert!(complaint.text.contains("file descriptors"), "{complaint:?}");
        pooler.await_log(&complaint.text);
        // The reserve descriptor may have been closed to report this to a client, and its number is free then.
        crowd.extend((0..4).filter_map(|_| knock(pooler.address(), "crowd_files")));
        let answer = crowd.last_mut().expect("more of them").frame_within(Duration::from_secs(3));
        assert!(answer.is_ok_and(|frame| frame.tag == b'E'), "with {kernel}");
        // An administrator can still connect through the unix socket, and only to the console.
        let psql = |user: &str, database: &str, sql: &str| {
            let mut command = house.place.command(&house.place.postgres_program("psql"), "KILL");
            command.args(["-X", "-At", "-w", "-h"]).arg(pooler.directory()).args(["-p", &pooler.port().to_string()]);
            run(command.args(["-U", user, "-d", database, "-c", sql]), LIMIT)
        };
        assert!(psql("pgbouncer", "pgbouncer", "SHOW VERSION").success().starts_with("PgBouncer "));
        let refused = psql("u", "crowd_files", "select 1").failure();
        assert!(refused.contains("out of file descriptors"), "{refused}");
        drop(crowd);
        wait_until("new clients are let in again", LIMIT, || {
            let answer =
                knock(pooler.address(), "crowd_files").map(|mut peer| peer.frame_within(Duration::from_secs(2)));
            matches!(answer, Some(Ok(frame)) if frame.tag == b'R')
        });
    }
}

// Alone.
pub(crate) fn clients_that_take_all_descriptors_leave_some_for_servers(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer reserves nothing for servers");
    }
    house.postgres.database("crowd_dial");
    for kernel in KERNELS {
        let ini = Ini::new(&house.line("crowd_dial")).set("max_client_conn = 1000").set("workers = 1").set(kernel);
        let pooler = house.start(&ini.descriptors(64));
        // All descriptors are in use before any client sends its startup packet: without descriptors for servers no client
        // could ever be served.
        let wish = message::startup(0, &[("user", "u"), ("database", "crowd_dial")]);
        let mut crowd: Vec<_> = (0..80).filter_map(|_| Peer::tcp(pooler.address()).ok()).collect();
        crowd.iter_mut().for_each(|peer| drop(peer.try_send(&wish[..6])));
        wait_until("all descriptors are taken", LIMIT, || {
            pooler.log().contains("descriptors)") || pooler.log().contains("accept()")
        });
        let first = crowd.first_mut().expect("the kernel takes connections");
        first.send(&wish[6..]);
        let answer = first.frame_within(Duration::from_secs(5)).unwrap_or_else(|lost| panic!("with {kernel}: {lost}"));
        assert_eq!(answer.tag, b'R', "with {kernel}");
    }
}

/// A connection with its startup packet sent.
fn knock(address: SocketAddr, database: &str) -> Option<Peer> {
    let mut peer = Peer::tcp(address).ok()?;
    peer.try_send(&message::startup(0, &[("user", "u"), ("database", database)])).ok()?;
    Some(peer)
}

// Alone.
pub(crate) fn a_full_disk_for_the_log_stops_nothing(house: &House) {
    if !std::path::Path::new("/dev/full").exists() {
        return skip("there is no /dev/full");
    }
    let pooler = house.pooler("crowd_disk", &["logfile = /dev/full"]);
    for number in 0..20 {
        assert_eq!(pooler.client("u", "crowd_disk").value(&format!("select {number}")), number.to_string());
    }
    if house.place.is_trunkline() {
        let said = pooler.said();
        assert_eq!(said.matches("WARNING the log file takes no lines, ").count(), 1, "{said}");
        assert!(said.contains("so far: No space left on device"), "{said}");
    }
}

// Alone.
pub(crate) fn a_dial_without_descriptors_is_told_once_in_a_while(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer closes clients instead");
    }
    house.postgres.database("crowd_delayed");
    let line = |name: &str| house.line("crowd_delayed").replacen("crowd_delayed", name, 1);
    for kernel in KERNELS {
        let ini = (0..4).fold(Ini::new(&house.line("crowd_delayed")), |ini, number| {
            ini.database(&line(&format!("delayed_{number}")))
        });
        let pooler = house.start(&ini.set("workers = 1").set("max_client_conn = 20").set(kernel));
        let mut clients: Vec<_> = (0..4).map(|_| Peer::tcp(pooler.address()).expect("it listens")).collect();
        let accepted =
            || pooler.console("SHOW LISTS").rows.into_iter().find(|row| row[0].as_deref() == Some("unauthenticated"));
        wait_until("all are accepted", LIMIT, || accepted().is_some_and(|row| row[1].as_deref() == Some("4")));
        let limit = |count: usize| {
            let mut command = house.place.command(Path::new("prlimit"), "KILL");
            let number = format!("--nofile={count}:");
            run(command.args(["--pid", &pooler.pid().to_string(), &number]), LIMIT).success();
        };
        limit(pooler.descriptors() - 1);
        for (number, client) in clients.iter_mut().enumerate() {
            let database = format!("delayed_{number}");
            client.send(&message::startup(0, &[("user", "u"), ("database", &database)]));
        }
        pooler.await_log("connect delayed: Too many open files");
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(pooler.log().matches("connect delayed").count(), 1, "{}", pooler.log());
        limit(500);
        for client in &mut clients {
            assert_eq!(client.frame_within(LIMIT).expect("an answer").tag, b'R');
        }
    }
}

// Alone.
pub(crate) fn clients_that_come_and_go_leave_nothing(house: &House) {
    let pooler = house.pooler("crowd_churn", &["default_pool_size = 4"]);
    let round = |count: usize| {
        for number in 0..count {
            let mut client = pooler.client("u", "crowd_churn");
            match number % 4 {
                0 => client.run("select 1"),
                1 => client.ask("select 1"),
                2 => client.peer.send(&message::terminate()),
                _ => {}
            }
        }
        pooler.await_pool("crowd_churn", "cl_active", "0");
        pooler.await_pool("crowd_churn", "sv_active", "0");
    };
    round(400);
    let (memory, files) = (pooler.memory_kb("VmRSS"), pooler.descriptors());
    round(1_600);
    let grown = pooler.memory_kb("VmRSS").saturating_sub(memory);
    assert!(grown < 2_048, "2,000 clients left {grown} kB behind");
    // The last clients may still be disconnecting, and so may a cancel connection.
    wait_until("2,000 clients leave no descriptor behind, but for four servers", LIMIT, || {
        pooler.descriptors() <= files + 4
    });
}

// Alone.
pub(crate) fn nobody_reads_anothers_answer_while_clients_and_servers_die(house: &House) {
    let workers = if house.place.is_trunkline() { "workers = 2" } else { "verbose = 0" };
    let pooler = house.pooler("crowd_chaos", &["default_pool_size = 6", "server_login_retry = 0", workers]);
    let address = pooler.address();
    let done = AtomicBool::new(false);
    let served: usize = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut killer = house.postgres.client("postgres");
            while !done.load(Ordering::Relaxed) {
                killer.run(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'crowd_chaos'
                     order by random() limit 1",
                );
                killer.run("select pg_sleep(0.03)");
            }
        });
        let threads: Vec<_> = (0..12).map(|number| scope.spawn(move || live_dangerously(address, number))).collect();
        let served = threads.into_iter().map(|thread| thread.join());
        let served: Vec<_> = served.collect();
        done.store(true, Ordering::Relaxed);
        served.into_iter().map(|served| served.expect("nobody read a wrong answer")).sum()
    });
    assert!(served > 200, "only {served} answers came in this storm");
    pooler.await_pool("crowd_chaos", "cl_active", "0");
    pooler.await_pool("crowd_chaos", "sv_active", "0");
    wait_until("the pooler works as before", LIMIT, || {
        Client::try_login(address, &[("user", "u"), ("database", "crowd_chaos")])
            .is_ok_and(|mut client| client.query("select 1").errors.is_empty())
    });
    assert!(house.postgres.servers("crowd_chaos") <= 6);
}

/// One client of the storm: queries its own number in many ways, and leaves in many ways. Returns how many answers it got.
fn live_dangerously(address: SocketAddr, number: u64) -> usize {
    let mut served = 0;
    let mut state = number.wrapping_mul(7_919) + 1;
    let mut client: Option<Client> = None;
    for round in 0..400 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nonce = format!("{number}-{round}");
        let Some(mut here) = client.take().or_else(|| login_in_a_storm(address)) else { continue };
        let sql = format!("select '{nonce}' from pg_sleep(0.002)");
        match (state >> 40) % 8 {
            0..=3 => {
                here.ask(&sql);
                served += check(&mut here, &nonce).inspect(|()| client = Some(here)).map_or(0, |()| 1);
            }
            4 => {
                let piece =
                    [message::parse("", &sql), message::bind("", "", &[]), message::execute("", 0), message::sync()];
                let _ = here.peer.try_send(&piece.concat());
                served += check(&mut here, &nonce).inspect(|()| client = Some(here)).map_or(0, |()| 1);
            }
            // Leaves in the middle of a query, of a transaction, or of a message.
            5 => here.ask(&sql),
            6 => drop(here.peer.try_send(&[message::query("begin"), message::query(&sql)].concat())),
            _ => drop(here.peer.try_send(&message::query(&sql)[..9])),
        }
    }
    served
}

fn login_in_a_storm(address: SocketAddr) -> Option<Client> {
    let mut peer = Peer::tcp(address).ok()?;
    peer.try_send(&message::startup(0, &[("user", "u"), ("database", "crowd_chaos")])).ok()?;
    Client::finish_login(peer, LIMIT).ok()
}

/// Reads one answer, which must contain no other number than our own. `None` when the client cannot go on.
fn check(client: &mut Client, nonce: &str) -> Option<()> {
    loop {
        let frame = match client.peer.frame() {
            Ok(frame) => frame,
            Err(Lost::Closed) => return None,
            Err(lost) => panic!("{lost}"),
        };
        match frame.tag {
            b'D' => {
                assert_eq!(message::read_list(&frame.body), [Some(nonce.to_string())], "the answer of somebody else")
            }
            b'Z' => return Some(()),
            b'E' => {
                let code = Complaint::read(&frame).code;
                assert!(["57P01", "08P01"].contains(&code.as_str()), "{code}");
            }
            _ => {}
        }
    }
}

/// Runs a query with an answer of medium size, so that one-time allocations are made. Returns the memory after that, in kB.
fn warm(client: &mut Client, pooler: &tests::pooler::Pooler) -> u64 {
    client.run("select repeat('x', 1000000)");
    pooler.memory_kb("VmHWM")
}

/// Reads an answer without keeping it. Returns the length of its longest message.
fn longest(client: &mut Client) -> usize {
    let mut longest = 0;
    loop {
        match client.peer.skim(Duration::from_secs(60)).expect("the answer goes on") {
            (b'Z', _) => return longest,
            (b'E', _) => panic!("an error came"),
            (_, length) => longest = longest.max(length),
        }
    }
}

fn expect_flat(pooler: &tests::pooler::Pooler, before: u64) {
    let grown = pooler.memory_kb("VmHWM").saturating_sub(before);
    assert!(grown < 8 * 1024, "the pooler grew by {grown} kB");
}

const CLIENTS: usize = 5_000;
const KERNELS: [&str; 2] = ["io_backend = epoll", "io_backend = io_uring"];
