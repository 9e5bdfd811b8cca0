//! Every way to connect to the pooler and to a server; both kernel interfaces.

use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::pooler::Ini;
use tests::postgres::{abstract_name, has_ipv6};
use tests::program::{pgbench, psql, run};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

pub(crate) fn clients_come_over_the_unix_socket(house: &House) {
    let pooler = house.start(&Ini::new(&house.line("postgres")).set("unix_socket_mode = 0770"));
    let mode = || std::fs::metadata(pooler.socket()).map_or(0, |file| file.permissions().mode() & 0o777);
    wait_until("the socket file has its mode", LIMIT, || mode() == 0o770);
    let mut client = login(pooler.knock(), "postgres");
    assert_eq!(client.value("select 1"), "1");
    let row = pooler.console("SHOW CLIENTS");
    assert!(
        (0..row.rows.len()).map(|at| row.named(at)).any(|row| row["addr"] == "unix" && row["database"] == "postgres")
    );
}

pub(crate) fn clients_come_over_an_abstract_unix_socket(house: &House) {
    let name = format!("trunkline-tests-{}", std::process::id());
    let pooler = house.start(&Ini::new(&house.line("postgres")).set(&format!("unix_socket_dir = @{name}")));
    let peer = Peer::abstract_unix(&format!("{name}/.s.PGSQL.{}", pooler.port())).expect("the socket answers");
    assert_eq!(login(peer, "postgres").value("select 1"), "1");
}

pub(crate) fn servers_are_reached_over_a_unix_socket(house: &House) {
    let place = house.postgres.socket_directory().display();
    let port = house.postgres.port();
    let ini = Ini::new(&format!("file = host={place} port={port} dbname=postgres"));
    let pooler =
        house.start(&ini.database(&format!("abstract = host=@{} port={port} dbname=postgres", abstract_name(port))));
    let has_abstract = !house.is_older_than(14, "the abstract socket");
    for database in ["file", "abstract"].into_iter().take(1 + usize::from(has_abstract)) {
        assert_eq!(pooler.client("u", database).value("select coalesce(inet_client_addr()::text, 'unix')"), "unix");
    }
}

pub(crate) fn servers_are_reached_by_name_and_over_ipv6(house: &House) {
    let port = house.postgres.port();
    let mut ini = Ini::new(&format!("by_name = host=localhost port={port} dbname=postgres"));
    ini = ini.database(&format!("nowhere = host=no-such-host.invalid port={port} dbname=postgres"));
    ini = ini.database(&format!("by_ipv6 = host=::1 port={port} dbname=postgres")).set("client_login_timeout = 2");
    let pooler = house.start(&ini);
    assert_eq!(pooler.client("u", "by_name").value("select 1"), "1");
    if has_ipv6() {
        assert_eq!(pooler.client("u", "by_ipv6").value("select host(inet_client_addr())"), "::1");
    }
    let error = Client::try_login(pooler.address(), &[("user", "u"), ("database", "nowhere")])
        .map(|_| ())
        .expect_err("no host");
    assert_eq!(error.text, "client_login_timeout (server down)");
    pooler.await_log("server DNS lookup failed");
}

pub(crate) fn clients_come_over_each_listen_address(house: &House) {
    if !has_ipv6() {
        return skip("this machine has no IPv6");
    }
    let pooler = house.start(&Ini::new(&house.line("postgres")).set("listen_addr = 127.0.0.1, ::1"));
    let address: SocketAddr = (Ipv6Addr::LOCALHOST, pooler.port()).into();
    assert_eq!(Client::login(address, "u", "postgres").value("select 1"), "1");
    assert_eq!(pooler.client("u", "postgres").value("select 1"), "1");
    pooler.await_log("@[::1]:");
}

pub(crate) fn the_owner_of_the_process_enters_the_console_without_a_password(house: &House) {
    let pooler = house.start(&Ini::new(&house.line("postgres")).set("auth_type = scram-sha-256"));
    let mut command = house.place.command(&house.place.postgres_program("psql"), "KILL");
    command.args(["-X", "-At", "-w", "-h"]).arg(pooler.directory()).args(["-p", &pooler.port().to_string()]);
    let out = run(command.args(["-U", "pgbouncer", "-d", "pgbouncer", "-c", "SHOW VERSION"]), LIMIT).success();
    assert!(out.starts_with("PgBouncer "), "{out}");
    pooler.await_log("pgbouncer access from unix socket");
    // Over TCP the user name alone does not suffice.
    let error = run(psql(&pooler, "pgbouncer", "pgbouncer").args(["-c", "SHOW VERSION"]), LIMIT).failure();
    assert!(error.contains("password") || error.contains("authentication"), "{error}");
}

pub(crate) fn both_kernel_interfaces_do_the_same_work(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no io_backend");
    }
    house.postgres.database("socket_kernels");
    for kernel in ["io_uring", "epoll", "auto"] {
        let ini =
            Ini::new(&house.line("socket_kernels")).set(&format!("io_backend = {kernel}")).set("default_pool_size = 5");
        let pooler = house.start(&ini);
        if kernel == "io_uring" {
            run(pgbench(&pooler, "u", "socket_kernels").args(["-i", "-q"]), Duration::from_secs(60)).success();
        }
        let report = run(
            pgbench(&pooler, "u", "socket_kernels").args(["-c", "20", "-j", "2", "-t", "30"]),
            Duration::from_secs(60),
        );
        assert!(report.success().contains("600/600"));
        let chosen = if kernel == "epoll" { "epoll" } else { "io_uring" };
        pooler.await_log(chosen);
    }
}

fn login(mut peer: Peer, database: &str) -> Client {
    peer.send(&message::startup(0, &[("user", "u"), ("database", database)]));
    Client::finish_login(peer, LIMIT).expect("the login succeeds")
}
