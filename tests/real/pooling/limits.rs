//! Limits: none is exceeded at any instant, and a client that meets one gets an error.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tests::client::Client;
use tests::message::{self, Complaint};
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_for, wait_until};

use crate::house::House;

pub(crate) fn max_client_conn_refuses_the_next_with_words(house: &House) {
    let pooler = house.pooler("limit_clients", &["max_client_conn = 3"]);
    let _three: Vec<_> = (0..3).map(|_| pooler.client("u", "limit_clients")).collect();
    assert_eq!(refused(&pooler, "u", "limit_clients").text, "no more connections allowed (max_client_conn)");
    pooler.await_log("pooler error: no more connections allowed (max_client_conn)");
    // The console is not subject to the limit.
    pooler.console("SHOW VERSION").value();
}

pub(crate) fn a_place_is_free_again_when_a_client_has_gone(house: &House) {
    let pooler = house.pooler("limit_again", &["max_client_conn = 2"]);
    let _one = pooler.client("u", "limit_again");
    for _ in 0..20 {
        let mut two = pooler.client("u", "limit_again");
        two.peer.send(&tests::message::terminate());
        two.peer.closed_within(LIMIT).expect("the pooler closes");
    }
}

pub(crate) fn max_db_client_connections_counts_by_database(house: &House) {
    let ini = house.ini("limit_db_clients", &["max_db_client_connections = 2"]).database(&house.line("postgres"));
    let pooler = house.start(&ini);
    let _two = [pooler.client("u", "limit_db_clients"), pooler.client("v", "limit_db_clients")];
    let text = "client connections exceeded (max_db_client_connections)";
    assert_eq!(refused(&pooler, "u", "limit_db_clients").text, text);
    pooler.client("u", "postgres");
}

/// No password is requested in vain.
pub(crate) fn of_two_full_limits_the_one_of_the_database_is_told(house: &House) {
    let limits = ["max_db_client_connections = 1", "max_user_client_connections = 1"];
    let pooler = house.pooler("limit_both", &limits);
    let _one = pooler.client("u", "limit_both");
    pooler.console("SET auth_type='md5'");
    assert_eq!(refused(&pooler, "u", "limit_both").text, "client connections exceeded (max_db_client_connections)");
}

pub(crate) fn max_user_client_connections_counts_by_user(house: &House) {
    let ini = house.ini("limit_user_clients", &["max_user_client_connections = 2"]).database(&house.line("postgres"));
    let pooler = house.start(&ini.user("v = max_user_client_connections=1"));
    let _two = [pooler.client("u", "limit_user_clients"), pooler.client("u", "postgres")];
    let text = "client connections exceeded (max_user_client_connections)";
    assert_eq!(refused(&pooler, "u", "postgres").text, text);
    let _one = pooler.client("v", "postgres");
    assert_eq!(refused(&pooler, "v", "postgres").text, text);
}

/// Previously a client that named a user took one of that user's places without having shown a password.
pub(crate) fn who_only_claims_to_be_a_user_takes_none_of_that_users_places(house: &House) {
    let settings = ["auth_type = plain", "max_user_client_connections = 1", "max_db_client_connections = 1"];
    let ini = house.ini("limit_claim", &settings).secret("owner", "right").secret("watcher", "right");
    let ini = ini.database(&format!("{} user=v", house.line_as("limit_claimed", "limit_claim")));
    let pooler = house.start(&ini.set("stats_users = watcher"));
    let ask = |user: &str, database: &str| {
        let mut peer = pooler.knock();
        peer.send(&message::startup(0, &[("user", user), ("database", database)]));
        assert_eq!(peer.frame().expect("an answer").tag, b'R', "a claimant is asked for a password");
        peer
    };
    let answer = |mut peer: Peer, password: &str| {
        peer.send(&message::frame(b'p', &message::strings(&[password])));
        Client::finish_login(peer, LIMIT)
    };
    for (user, database) in [("owner", "limit_claimed"), ("watcher", "pgbouncer")] {
        let claimants: Vec<_> = (0..20).map(|_| ask(user, database)).collect();
        let _owner = answer(ask(user, database), "right").expect("the one place is free");
        let mut told: Vec<_> = claimants.into_iter().map(|peer| answer(peer, "wrong")).collect();
        assert_eq!(told.pop().expect("some").map(drop).expect_err("wrong").text, "password authentication failed");
        // In another database, which is not full.
        let error = answer(ask(user, "limit_claim"), "right").map(drop).expect_err("one too many");
        assert_eq!(error.text, "client connections exceeded (max_user_client_connections)");
    }
}

/// Previously the limit of a line that had been removed from `[users]` stayed in force until the next start.
pub(crate) fn a_user_without_a_line_of_its_own_has_the_limit_of_all(house: &House) {
    let ini = house.ini("limit_inherited", &["max_user_client_connections = 2"]);
    let pooler = house.start(&ini.clone().user("v = max_user_client_connections=1"));
    let _one = pooler.client("v", "limit_inherited");
    let text = "client connections exceeded (max_user_client_connections)";
    assert_eq!(refused(&pooler, "v", "limit_inherited").text, text);
    pooler.rewrite(&ini);
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    let _two = pooler.client("v", "limit_inherited");
    assert_eq!(refused(&pooler, "v", "limit_inherited").text, text);
}

/// Previously clients that were connected before the limit did not count, so that twice as many could be connected.
pub(crate) fn a_limit_of_users_that_a_reload_brings_counts_who_is_there(house: &House) {
    let ini = house.ini("limit_later", &["workers = 2"]).database(&house.line("postgres"));
    let pooler = house.start(&ini);
    let one = pooler.client("u", "limit_later");
    let _two = pooler.client("u", "postgres");
    let _other = pooler.client("v", "postgres");
    pooler.rewrite(&ini.clone().set("max_user_client_connections = 2"));
    assert_eq!(pooler.console("RELOAD").tags, ["RELOAD"]);
    let text = "client connections exceeded (max_user_client_connections)";
    assert_eq!(refused(&pooler, "u", "postgres").text, text);
    drop(one);
    let parameters = [("user", "u"), ("database", "postgres")];
    let three = wait_for("the place is free", LIMIT, || Client::try_login(pooler.address(), &parameters).ok());
    assert_eq!(refused(&pooler, "u", "limit_later").text, text);
    let _four = pooler.client("v", "postgres");
    assert_eq!(refused(&pooler, "v", "limit_later").text, text);
    pooler.rewrite(&ini);
    pooler.console("RELOAD");
    drop(three);
    let _more = [pooler.client("u", "postgres"), pooler.client("u", "limit_later")];
}

pub(crate) fn default_pool_size_is_never_exceeded(house: &House) {
    let pooler = house.pooler("limit_pool", &["default_pool_size = 3"]);
    assert_most_servers(house, &pooler, &[("u", "limit_pool")], 12, 3);
}

pub(crate) fn a_pool_size_of_a_database_goes_before_the_default(house: &House) {
    house.postgres.database("limit_own");
    let pooler =
        house.start(&Ini::new(&format!("{} pool_size=2", house.line("limit_own"))).set("default_pool_size = 5"));
    assert_most_servers(house, &pooler, &[("u", "limit_own")], 8, 2);
}

pub(crate) fn max_db_connections_holds_over_all_users(house: &House) {
    let pooler = house.pooler("limit_db", &["default_pool_size = 10", "max_db_connections = 3"]);
    assert_most_servers(house, &pooler, &[("u", "limit_db"), ("v", "limit_db")], 12, 3);
}

pub(crate) fn max_user_connections_holds_over_all_databases(house: &House) {
    house.postgres.database("limit_user_b");
    let ini = house.ini("limit_user_a", &["default_pool_size = 10", "max_user_connections = 3"]);
    let pooler = house.start(&ini.database(&house.line("limit_user_b")));
    let pools = [("u", "limit_user_a"), ("u", "limit_user_b")];
    assert_most_servers(house, &pooler, &pools, 12, 3);
}

pub(crate) fn limits_hold_for_the_process_with_two_workers(house: &House) {
    let names = ["limit_w1", "limit_w2", "limit_w3", "limit_w4"];
    names[1..].iter().for_each(|name| house.postgres.database(name));
    let settings = ["workers = 2", "default_pool_size = 10", "max_user_connections = 4", "max_client_conn = 13"];
    let ini = names[1..].iter().fold(house.ini(names[0], &settings), |ini, name| ini.database(&house.line(name)));
    let pooler = house.start(&ini);
    let pools: Vec<_> = names.iter().map(|name| ("u", *name)).collect();
    assert_most_servers(house, &pooler, &pools, 12, 4);
    await_no_clients(&pooler);
    let _all: Vec<_> = (0..13).map(|at| pooler.client("u", names[at % 4])).collect();
    for name in names {
        assert_eq!(refused(&pooler, "u", name).text, "no more connections allowed (max_client_conn)");
    }
}

pub(crate) fn an_idle_server_of_another_user_gives_its_place(house: &House) {
    let pooler = house.pooler("limit_evict", &["default_pool_size = 5", "max_db_connections = 1"]);
    let mut one = pooler.client("u", "limit_evict");
    one.run("select 1");
    let mut two = pooler.client("v", "limit_evict");
    assert_eq!(two.value("select current_user"), "v");
    assert_eq!(one.value("select current_user"), "u");
    assert_eq!(pooler.connections_to(house.postgres.port()), 1);
}

pub(crate) fn min_pool_size_is_reached_without_a_queue(house: &House) {
    let pooler = house.pooler("limit_min", &["min_pool_size = 4", "default_pool_size = 6"]);
    let _client = pooler.client("u", "limit_min");
    house.postgres.await_servers("limit_min", 4);
    house.postgres.database("limit_min_forced");
    let line = format!("{} user=u min_pool_size=2", house.line("limit_min_forced"));
    let _pooler = house.start(&Ini::new(&line));
    house.postgres.await_servers("limit_min_forced", 2);
}

pub(crate) fn a_minimum_evicts_nobody(house: &House) {
    let settings = ["min_pool_size = 3", "default_pool_size = 5", "max_db_connections = 3"];
    let pooler = house.pooler("limit_min_max", &settings);
    let mut one = pooler.client("u", "limit_min_max");
    house.postgres.await_servers("limit_min_max", 3);
    let pids = "select string_agg(pid::text, ' ' order by pid) from pg_stat_activity where datname = 'limit_min_max'";
    let before = house.postgres.value(pids);
    // The pool of `v` wants three servers as well; without a query of its own it takes none from `u`.
    let second = Client::try_login(pooler.address(), &[("user", "v"), ("database", "limit_min_max")]);
    one.run("select 1");
    assert!(pooler.connections_to(house.postgres.port()) <= 3);
    drop(second);
    pooler.await_pool("limit_min_max", "cl_active", "1");
    let kept = house.postgres.value(pids);
    assert!(before.split(' ').filter(|pid| kept.contains(pid)).count() >= 2, "{before} became {kept}");
}

pub(crate) fn clients_wait_in_order(house: &House) {
    let pooler = house.pooler("limit_order", &["default_pool_size = 1"]);
    let mut first = pooler.client("u", "limit_order");
    first.run("create table t (place serial, who int)");
    let mut rest: Vec<_> = (0..6).map(|_| pooler.client("u", "limit_order")).collect();
    first.run("begin");
    for (number, client) in rest.iter_mut().enumerate() {
        client.ask(&format!("insert into t (who) values ({number})"));
        pooler.await_pool("limit_order", "cl_waiting", &(number + 1).to_string());
    }
    first.run("commit");
    for client in &mut rest {
        assert!(client.answer().errors.is_empty());
    }
    assert_eq!(first.value("select string_agg(who::text, '' order by place) from t"), "012345");
}

pub(crate) fn a_star_stands_for_databases_without_a_line(house: &House) {
    house.postgres.database("limit_star");
    let pooler = house.start(&Ini::new(&format!("* = host=127.0.0.1 port={}", house.postgres.port())));
    assert_eq!(pooler.client("u", "limit_star").value("select current_database()"), "limit_star");
    pooler.await_log("registered new auto-database: limit_star");
    let error = refused(&pooler, "u", "limit_star_missing");
    assert_eq!((error.code.as_str(), error.text.as_str()), ("3D000", "database \"limit_star_missing\" does not exist"));
}

/// Lets `count` clients run short queries until there have been as many servers as the limit allows, and samples all the
/// while: there are never more.
///
/// The pooler's connections are counted, and not PostgreSQL's processes: a backend takes a moment to end after its
/// connection has been closed. Where nothing is closed, as in a single pool, the processes may not be more either.
fn assert_most_servers(house: &House, pooler: &Pooler, pools: &[(&str, &str)], count: usize, wanted: usize) {
    let end = Instant::now() + LIMIT;
    let most = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let port = house.postgres.port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut watcher = house.postgres.client("postgres");
            let sample = format!("select count(*) from pg_stat_activity where datname = '{}'", pools[0].1);
            while !done.load(Ordering::Relaxed) {
                let processes = if pools.len() == 1 { watcher.value(&sample).parse().expect("a count") } else { 0 };
                most.fetch_max(pooler.connections_to(port).max(processes), Ordering::Relaxed);
            }
        });
        let is_enough = || most.load(Ordering::Relaxed) >= wanted || Instant::now() > end;
        let clients: Vec<_> = (0..count)
            .map(|at| {
                let (user, database) = pools[at % pools.len()];
                scope.spawn(move || {
                    let mut client = pooler.client(user, database);
                    for round in 0.. {
                        if round >= 8 && is_enough() {
                            break;
                        }
                        client.run("select pg_sleep(0.02)");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().is_ok()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.into_iter().all(|well| well), "a client was not served");
    });
    assert_eq!(most.into_inner(), wanted);
}

fn refused(pooler: &Pooler, user: &str, database: &str) -> Complaint {
    let error = Client::try_login(pooler.address(), &[("user", user), ("database", database)]).map(|_| ());
    let error = error.expect_err("one client too many was let in");
    assert_eq!(error.severity, "FATAL");
    error
}

fn await_no_clients(pooler: &Pooler) {
    let mut console = pooler.client("admin", "pgbouncer");
    wait_until("all clients but the console have gone", LIMIT, || console.query("SHOW CLIENTS").rows.len() == 1);
}
