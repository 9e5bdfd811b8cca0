//! `trunkline hatest`: an outage is seen, and what is lost or done twice is told.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::pooler::Ini;
use tests::postgres::Postgres;
use tests::program::{Ended, finish, run, signal, without_preferences};
use tests::runner::skip;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

pub(crate) fn a_failover_is_seen_and_nothing_is_lost_with_a_synchronous_standby(house: &House) {
    if !is_ours(house) {
        return;
    }
    let mut one = Postgres::start(&house.place);
    let two = one.standby(&house.place);
    let mut operator = one.client("postgres");
    operator.run("alter system set synchronous_standby_names = '*'");
    operator.run("alter system set synchronous_commit = on");
    operator.run("select pg_reload_conf()");
    wait_until("the standby is synchronous", LIMIT, || {
        one.value("select count(*) from pg_stat_replication where sync_state = 'sync'") == "1"
    });
    let hosts = format!("host=127.0.0.1,127.0.0.1 port={},{} target_session_attrs=read-write", one.port(), two.port());
    let pooler = house.start(&Ini::new(&format!("rw = {hosts} dbname=postgres")).set("pool_mode = transaction"));
    let test = Running::start(
        house,
        &[
            "--path",
            &format!("pooler=host=127.0.0.1 port={} user=u dbname=rw", pooler.port()),
            "--path",
            &format!("libpq={hosts} user=u dbname=postgres"),
            "--reader",
            &format!("standby=postgres://u@127.0.0.1:{}/postgres?target_session_attrs=any", two.port()),
            "--verify",
            &format!("host=127.0.0.1 port={} user=u dbname=postgres", two.port()),
        ],
    );
    test.await_rows(&two, "postgres", 100);
    one.crash();
    // Nobody can write now. The writers find that out before another server takes over.
    two.promote();
    let before = rows(&two, "postgres");
    test.await_rows(&two, "postgres", before + 100);
    let (ended, report) = test.interrupt();
    assert_eq!(ended.code(), 0, "{}\n{}", ended.out, ended.err);
    assert_eq!((&report["verdict"], &report["lost"], &report["duplicate"]), (&"ok".into(), &0.into(), &0.into()));
    let paths = report["paths"].as_array().expect("paths");
    assert_eq!(paths.iter().map(|path| &path["name"]).collect::<Vec<_>>(), ["pooler", "libpq"]);
    for path in paths {
        assert!(number(&path["acked"]) >= 50, "{path}");
        let served: Vec<&Value> = path["members"].as_array().expect("members").iter().collect();
        let addresses: Vec<&Value> = served.iter().map(|member| &member["address"]).collect();
        assert_eq!(addresses, [&address(&one), &address(&two)], "{path}");
        // The outage is the time between the last answer of the one and the first answer of the other.
        let seconds = |member: &Value, key: &str| member[key].as_f64().expect("a time");
        let outage = seconds(served[1], "first_s") - seconds(served[0], "last_s");
        let gap = path["gap_ms"].as_f64().expect("a gap");
        let length = report["duration_s"].as_f64().expect("a time");
        assert!(outage * 1000.0 - 2.0 < gap && gap < length * 1000.0, "an outage of {outage} s: {path}");
        assert_eq!(number(&path["refused"]) + number(&path["unknown"]) + number(&path["acked"]), number(&path["sent"]));
    }
    // Whoever is connected directly loses the connections; whoever waits in the pooler does not.
    assert!(number(&paths[1]["broken"]) >= 2, "{}", paths[1]);
    assert!(!paths[1]["connect_errors"].as_object().expect("codes").is_empty(), "{}", paths[1]);
    let roles = report["readers"][0]["members"].as_array().expect("members");
    assert_eq!(roles.iter().map(|member| &member["role"]).collect::<Vec<_>>(), ["standby", "primary"], "{report}");
}

pub(crate) fn rows_that_vanish_are_lost_and_the_former_primary_is_compared(house: &House) {
    if !is_ours(house) {
        return;
    }
    let postgres = &house.postgres;
    postgres.database("hatest_lost");
    postgres.database("hatest_former");
    let at = |database: &str| format!("host=127.0.0.1 port={} user=u dbname={database}", postgres.port());
    let test =
        Running::start(house, &["--path", &format!("A={}", at("hatest_lost")), "--old-primary", &at("hatest_former")]);
    test.await_rows(postgres, "hatest_lost", 100);
    let mut client = postgres.client("hatest_lost");
    let run = client.value("select max(run) from hatest_ledger");
    // Both writers lose their connections, and make new ones.
    client.run("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'hatest_lost' and application_name = 'trunkline hatest'");
    let before = rows(postgres, "hatest_lost");
    test.await_rows(postgres, "hatest_lost", before + 50);
    client.run("delete from hatest_ledger where writer = 1 and seq between 10 and 14");
    let mut former = postgres.client("hatest_former");
    former.run("create table hatest_ledger (run bigint, path text, writer int, seq bigint)");
    former.run(&format!("insert into hatest_ledger select {run}, 'A', 1, seq from generate_series(8, 12) seq"));
    let (ended, report) = test.interrupt();
    assert_eq!(ended.code(), 1, "{}\n{}", ended.out, ended.err);
    let path = &report["paths"][0];
    assert_eq!(
        (&report["verdict"], &path["lost"], &path["duplicate"]),
        (&"lost".into(), &5.into(), &0.into()),
        "{path}"
    );
    assert_eq!((&path["broken"], &path["broken_codes"]["57P01"]), (&2.into(), &2.into()), "{path}");
    assert_eq!(path["lost_rows"], serde_json::json!(["1:10-14"]));
    assert_eq!(path["divergence"], 3, "only there: 10 to 12");
}

pub(crate) fn rows_that_are_there_twice_are_told(house: &House) {
    if !is_ours(house) {
        return;
    }
    house.postgres.database("hatest_twice");
    // A table of the operator's own, in which a row can be twice.
    let mut client = house.postgres.client("hatest_twice");
    client.run("create table mine (run bigint, path text, writer int, seq bigint, sent timestamptz)");
    let path = format!("A=host=127.0.0.1 port={} user=u dbname=hatest_twice", house.postgres.port());
    let test = Running::start(house, &["--path", &path, "--table", "public.mine"]);
    wait_until("rows", LIMIT, || client.value("select count(*) >= 20 from mine") == "t");
    client.run("insert into mine select * from mine where seq between 2 and 3");
    let (ended, report) = test.interrupt();
    assert_eq!(ended.code(), 1, "{}\n{}", ended.out, ended.err);
    assert_eq!((&report["verdict"], &report["lost"]), (&"duplicate".into(), &0.into()));
    assert_eq!(report["duplicate"], 4, "two rows of two writers");
}

pub(crate) fn a_run_prints_lines_runs_a_fault_and_removes_its_rows(house: &House) {
    if !is_ours(house) {
        return;
    }
    house.postgres.database("hatest_text");
    let path = format!("A=postgres://u@127.0.0.1:{}/hatest_text", house.postgres.port());
    let mut command = hatest(house, &["--path", &path, "--reader", &path.replace("A=", "r="), "--duration", "2.5"]);
    command.args(["--classic", "--clean", "--fault-after", "1", "--fault", "echo now; exit 3"]);
    let ended = run(&mut command, LIMIT);
    assert_eq!(ended.code(), 0, "{}\n{}", ended.out, ended.err);
    for wanted in [
        "A: Working with Primary 127.0.0.1:",
        "r: Working with Primary 127.0.0.1:",
        "exit code 3",
        "acknowledged writes are on 127.0.0.1:",
    ] {
        assert!(ended.out.contains(wanted), "{wanted}: {}", ended.out);
    }
    assert!(ended.err.contains("now"), "{}", ended.err);
    assert_eq!(rows(&house.postgres, "hatest_text"), 0);
}

pub(crate) fn a_wrong_command_line_has_a_status_of_its_own(house: &House) {
    if !is_ours(house) {
        return;
    }
    for (args, wanted) in [
        (&[][..], "no --path NAME=CONNINFO"),
        (&["--path", "A=host=a password=geheim nonsense=1"], "--path A: "),
        (
            &["--path", "A=host=a", "--verify", "host=a target_session_attrs=x"],
            "--verify: invalid target_session_attrs: x",
        ),
    ] {
        let ended = run(&mut hatest(house, args), LIMIT);
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains(wanted) && !ended.err.contains("geheim"), "{}", ended.err);
    }
    let help = run(&mut hatest(house, &["--help"]), LIMIT).success();
    assert!(help.starts_with("Usage: trunkline hatest"), "{help}");
}

/// A test that is under way.
struct Running(Child);

impl Running {
    /// Starts one that runs until it is interrupted and reports as JSON.
    fn start(house: &House, args: &[&str]) -> Self {
        let mut command = hatest(house, args);
        command.args(["--json", "--duration", "1h"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("hatest starts"))
    }

    fn await_rows(&self, postgres: &Postgres, database: &str, count: u64) {
        wait_until(&format!("{count} rows"), LIMIT, || rows(postgres, database) >= count);
    }

    /// Ends it as Ctrl-C does, and returns its report.
    fn interrupt(self) -> (Ended, Value) {
        signal(self.0.id(), Signal::SIGINT);
        let ended = finish(self.0, "hatest", LIMIT);
        let report = serde_json::from_str(&ended.out);
        let report = report.unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.out, ended.err));
        (ended, report)
    }
}

fn hatest(house: &House, args: &[&str]) -> Command {
    let mut command = Command::new(house.place.pooler());
    without_preferences(&mut command);
    command.arg("hatest").args(args);
    command
}

fn rows(postgres: &Postgres, database: &str) -> u64 {
    let mut client = postgres.client(database);
    if client.value("select to_regclass('hatest_ledger') is not null") == "f" {
        return 0;
    }
    client.value("select count(*) from hatest_ledger").parse().expect("a count")
}

fn address(postgres: &Postgres) -> Value {
    format!("127.0.0.1:{}", postgres.port()).into()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

fn is_ours(house: &House) -> bool {
    if !house.place.is_trunkline() {
        skip("PgBouncer has no such command");
    }
    house.place.is_trunkline()
}
