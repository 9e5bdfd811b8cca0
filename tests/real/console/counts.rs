//! Metrics about the outcomes of logins, TLS handshakes and cancel requests, about probes, and about evictions.

use std::net::{SocketAddr, TcpStream};
use std::thread;

use tests::client::{Client, send_cancel};
use tests::message;
use tests::peer::Peer;
use tests::place::free_port;
use tests::pooler::Ini;
use tests::postgres::SECRET;
use tests::program::{psql, run};
use tests::wait::{LIMIT, wait_until};

use super::http::{get, pooler};
use crate::house::House;
use crate::logins::tls::Stage;

/// Waits until the metrics have this line: a client may see an end before the pooler counts it.
fn await_line(address: SocketAddr, line: &str) {
    wait_until(line, LIMIT, || get(address, "/metrics", "").1.lines().any(|told| told == line));
}

pub(crate) fn logins_are_counted_by_how_they_end(house: &House) {
    let port = free_port();
    let ini = Ini::new(&format!("{} user=v", house.line_as("counted", "postgres")))
        .set("auth_type = scram-sha-256")
        .set("max_client_conn = 2")
        .set(&format!("http_port = {port}"))
        .secret("by_scram", SECRET);
    let (pooler, address) = (house.start(&ini), ([127, 0, 0, 1], port).into());
    let login = |user: &str, password: &str| {
        run(psql(&pooler, user, "counted").env("PGPASSWORD", password).args(["-c", "select 1"]), LIMIT)
    };
    login("by_scram", SECRET).success();
    login("by_scram", "wrong").failure();
    login("stranger", "wrong").failure();
    await_line(address, "trunkline_logins_total{step=\"server\",outcome=\"accepted\"} 1.0");
    await_line(address, "trunkline_logins_total{step=\"password\",outcome=\"refused\"} 2.0");
    // The check that the pooler is up also connects and leaves.
    let gone = "trunkline_logins_total{step=\"startup\",outcome=\"gone\"}";
    let count = || {
        let told = get(address, "/metrics", "").1;
        let line = told.lines().find_map(|line| line.strip_prefix(gone)).unwrap_or(" 0.0").to_owned();
        line.trim().parse::<f64>().expect("a number")
    };
    let before = count();
    drop(TcpStream::connect(pooler.address()).expect("a door"));
    await_line(address, &format!("{gone} {:?}", before + 1.0));
    assert!(!get(address, "/metrics", "").1.contains("outcome=\"timed_out\""), "nobody was that slow");
}

pub(crate) fn logins_and_handshakes_that_take_too_long_are_counted(house: &House) {
    let port = free_port();
    let settings = ["client_login_timeout = 1".to_owned(), format!("http_port = {port}")];
    let stage = Stage::new(house, "counts_tls", &settings.each_ref().map(String::as_str));
    let address = ([127, 0, 0, 1], port).into();
    stage.ask("counts_tls", "select 1").success();
    await_line(address, "trunkline_tls_handshakes_total{peer=\"client\",outcome=\"full\"} 1.0");
    await_line(address, "trunkline_tls_handshakes_total{peer=\"server\",outcome=\"full\"} 1.0");
    let mut silent = Peer::tcp(stage.pooler.address()).expect("a door");
    silent.send(&message::packet(&80_877_103_u32.to_be_bytes()));
    await_line(address, "trunkline_logins_total{step=\"tls\",outcome=\"timed_out\"} 1.0");
    await_line(address, "trunkline_tls_handshakes_total{peer=\"client\",outcome=\"failed\"} 1.0");
}

pub(crate) fn cancel_requests_are_counted_by_what_became_of_them(house: &House) {
    let (pooler, address) = pooler(house, "counts_cancel", &["default_pool_size = 1"]);
    let mut client = pooler.client("u", "counts_cancel");
    client.run("select 1");
    client.cancel();
    await_line(address, "trunkline_cancel_requests_total{outcome=\"idle\"} 1.0");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("counts_cancel", "pg_sleep(60)");
    let mut waiting = pooler.client("u", "counts_cancel");
    waiting.ask("select 2");
    wait_until("a client waits", LIMIT, || pooler.pool("counts_cancel", "u")["cl_waiting"] == "1");
    waiting.cancel();
    await_line(address, "trunkline_cancel_requests_total{outcome=\"queued\"} 1.0");
    client.cancel();
    assert_eq!(client.answer().error().code, "57014");
    send_cancel(pooler.address(), 1, &[0; 4]);
    await_line(address, "trunkline_cancel_requests_total{outcome=\"sent\"} 1.0");
    await_line(address, "trunkline_cancel_requests_total{outcome=\"unknown_key\"} 1.0");
}

pub(crate) fn probes_are_counted_by_what_is_asked_for(house: &House) {
    let (pooler, address) = pooler(house, "counts_probes", &[]);
    let mut client = pooler.client("u", "counts_probes");
    client.run("do $$ begin execute 'select 1'; end $$");
    await_line(address, "trunkline_probes_total{kind=\"settings\"} 1.0");
}

pub(crate) fn it_is_told_for_whom_servers_are_evicted(house: &House) {
    let (pooler, address) = pooler(house, "counts_evict", &["default_pool_size = 5", "max_db_connections = 1"]);
    let mut one: Client = pooler.client("u", "counts_evict");
    let mut two = pooler.client("v", "counts_evict");
    for _ in 0..3 {
        one.run("select 1");
        two.run("select 1");
    }
    let evicted = |user: &str, by: &str, count: u32| {
        let database = "database=\"counts_evict\"";
        let by = format!("by_database=\"counts_evict\",by_user=\"{by}\"");
        await_line(address, &format!("trunkline_servers_evicted_total{{{database},user=\"{user}\",{by}}} {count}.0"));
    };
    evicted("u", "v", 4);
    evicted("v", "u", 3);
    let churn = pooler.console("SHOW CHURN");
    let mut rows = (0..churn.rows.len()).map(|row| churn.named(row));
    let told = rows.any(|row| row["user"] == "u" && row["evicted_by"] == "counts_evict/v 4");
    assert!(told, "{churn:?}");
}

/// Three pools compete for two places: each login and each eviction that the pooler counts is in PostgreSQL's log, and no
/// other.
pub(crate) fn logins_and_evictions_are_those_of_postgresqls_log(house: &House) {
    let settings = ["default_pool_size = 2", "max_db_connections = 2"];
    let (pooler, address) = pooler(house, "counts_logged", &settings);
    thread::scope(|scope| {
        for user in ["u", "v", "admin"].repeat(3) {
            let mut client = pooler.client(user, "counts_logged");
            scope.spawn(move || (0..40).for_each(|_| client.run("select 1")));
        }
    });
    let counted = |metric: &str, label: &str| {
        let told = get(address, "/metrics", "").1;
        let lines = told.lines().filter(|line| line.starts_with(&format!("{metric}{{database=\"counts_logged\"")));
        let values =
            lines.filter(|line| line.contains(label)).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>()
    };
    let logged = || {
        let log = house.postgres.log();
        log.lines()
            .filter(|line| line.contains("connection authorized") && line.contains("database=counts_logged"))
            .count()
    };
    let evicted = || counted("trunkline_servers_evicted_total", "");
    assert!(evicted() > 0.0, "nobody competed");
    wait_until("the logins are counted", LIMIT, || counted("trunkline_servers_opened_total", "") == logged() as f64);
    wait_until("the evictions are counted", LIMIT, || {
        evicted() == counted("trunkline_servers_closed_total", "evicted")
            && evicted() + house.postgres.servers("counts_logged") as f64 == logged() as f64
    });
}
