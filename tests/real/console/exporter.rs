//! Debian's exporter for PgBouncer (`prometheus-pgbouncer-exporter`), pointed at our console.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tests::place::free_port;
use tests::runner::skip;
use tests::wait::{LIMIT, wait_for};

use crate::house::House;

pub(crate) fn the_exporter_of_debian_reads_all_it_asks_for(house: &House) {
    if !Path::new("/usr/lib/python3/dist-packages/prometheus_pgbouncer_exporter/__init__.py").is_file() {
        skip("Debian's prometheus-pgbouncer-exporter is not installed");
        return;
    }
    let pooler = house.pooler("exporter", &[]);
    let mut client = pooler.client("u", "exporter");
    (0..7).for_each(|_| client.run("select 1"));
    let (ours, theirs) = (pooler.port().to_string(), free_port());
    let mut command = house.place.command(Path::new("/usr/bin/python3"), "KILL");
    let mut exporter: std::process::Child = started(
        command
            .args(["-m", "prometheus_pgbouncer_exporter", "--host", "127.0.0.1", "--port", &theirs.to_string()])
            .args(["--pgbouncer-host", "127.0.0.1", "--pgbouncer-port", &ours, "--pgbouncer-user", "stats"]),
    );
    let body = wait_for("the exporter to answer", LIMIT, || {
        let mut stream = TcpStream::connect(("127.0.0.1", theirs)).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    });
    let _ = exporter.kill();
    let _ = exporter.wait();
    for line in [
        "pgbouncer_requests_total{database=\"exporter\"} 7.0",
        "pgbouncer_active_clients{database=\"exporter\",user=\"u\"} 1.0",
        "pgbouncer_pool_size{database=\"exporter\"} 20.0",
        "pgbouncer_used_servers 1.0",
    ] {
        assert!(body.lines().any(|told| told == line), "{line} is missing:\n{body}");
    }
}

fn started(command: &mut Command) -> std::process::Child {
    command.spawn().expect("the exporter can be started")
}
