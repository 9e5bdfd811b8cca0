//! Ordinary work: psql, pgbench, COPY, cursors, pipelines, a driver.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::client::Client;
use tests::message;
use tests::program::{finish, pgbench, psql, run};
use tests::runner::skip;

use crate::house::House;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn psql_gets_its_rows(house: &House) {
    let pooler = house.pooler("traffic_psql", &[]);
    let out = run(psql(&pooler, "u", "traffic_psql").args(["-c", "select 1, 'two' union all select 3, null"]), MINUTE);
    assert_eq!(out.success(), "1|two\n3|\n");
    let script =
        "begin; create table t (a int); insert into t select generate_series(1, 10); commit; select sum(a) from t;";
    assert_eq!(run(psql(&pooler, "u", "traffic_psql").args(["-c", script]), MINUTE).success(), "55\n");
    let error = run(psql(&pooler, "u", "traffic_psql").args(["-c", "select * from nothing"]), MINUTE).failure();
    assert!(error.contains("relation \"nothing\" does not exist"), "{error}");
}

pub(crate) fn pgbench_runs_in_each_protocol_mode_that_applies(house: &House) {
    let pooler = house.pooler("traffic_bench", &["default_pool_size = 4"]);
    run(pgbench(&pooler, "u", "traffic_bench").args(["-i", "-s", "2", "-q"]), MINUTE).success();
    for mode in ["simple", "extended"] {
        let out =
            run(pgbench(&pooler, "u", "traffic_bench").args(["-c", "16", "-j", "2", "-t", "50", "-M", mode]), MINUTE);
        expect_all(&out.success(), 800);
    }
    let out = run(pgbench(&pooler, "u", "traffic_bench").args(["-S", "-C", "-c", "8", "-t", "25"]), MINUTE);
    expect_all(&out.success(), 200);
    let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
                       (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history),
                       (select count(*) from pgbench_history)";
    let answer = pooler.client("u", "traffic_bench").query(sums);
    let row: Vec<_> = answer.rows[0].iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
    assert_eq!(row, ["t", "t", "1600"], "money was lost or made");
}

pub(crate) fn pgbench_with_prepared_statements_runs_in_session_mode(house: &House) {
    let pooler = house.pooler("traffic_prepared", &["pool_mode = session", "default_pool_size = 8"]);
    run(pgbench(&pooler, "u", "traffic_prepared").args(["-i", "-q"]), MINUTE).success();
    let out = run(pgbench(&pooler, "u", "traffic_prepared").args(["-c", "8", "-t", "50", "-M", "prepared"]), MINUTE);
    expect_all(&out.success(), 400);
}

pub(crate) fn copy_of_200_mb_passes_both_ways(house: &House) {
    let pooler = house.pooler("traffic_copy", &[]);
    pooler.client("u", "traffic_copy").run("create unlogged table t (n int, filler text)");
    let mut command = psql(&pooler, "u", "traffic_copy");
    command.args(["-c", "copy t from stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("psql starts");
    let mut pipe = child.stdin.take().expect("a pipe was asked for");
    let filler = "x".repeat(1_000);
    for block in 0..200 {
        let lines: String = (0..1_000).map(|line| format!("{}\t{filler}\n", block * 1_000 + line)).collect();
        pipe.write_all(lines.as_bytes()).expect("psql reads");
    }
    drop(pipe);
    finish(child, "psql", MINUTE).success();
    let mut client = pooler.client("u", "traffic_copy");
    assert_eq!(
        client.value("select count(*) || ' ' || sum(n) || ' ' || sum(length(filler)) from t"),
        "200000 19999900000 200000000"
    );
    let out =
        run(psql(&pooler, "u", "traffic_copy").args(["-c", "copy (select * from t order by n) to stdout"]), MINUTE)
            .success();
    let right = out.lines().enumerate().all(|(at, line)| line.split_once('\t') == Some((&at.to_string(), &filler)));
    assert!(right && out.lines().count() == 200_000, "{} bytes came back, not those that were sent", out.len());
    assert!(pooler.memory_kb("VmHWM") < 64 * 1024, "the pooler grew to {} kB", pooler.memory_kb("VmHWM"));
}

pub(crate) fn a_cursor_reads_100_000_rows_in_a_transaction(house: &House) {
    let pooler = house.pooler("traffic_cursor", &["default_pool_size = 2"]);
    let mut client = pooler.client("u", "traffic_cursor");
    let mut other = pooler.client("u", "traffic_cursor");
    client.run("begin");
    client.run("declare c cursor for select n, repeat('x', 50) from generate_series(1, 100000) n");
    let mut sum: u64 = 0;
    for _ in 0..100 {
        let answer = client.query("fetch 1000 from c");
        assert_eq!(answer.rows.len(), 1_000);
        sum += answer
            .rows
            .iter()
            .map(|row| row[0].as_deref().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0))
            .sum::<u64>();
        other.run("select 1");
    }
    assert_eq!(sum, 5_000_050_000);
    client.run("commit");
}

pub(crate) fn an_error_in_a_pipeline_skips_to_its_sync_and_no_further(house: &House) {
    let pooler = house.pooler("traffic_pipeline", &["default_pool_size = 1"]);
    let mut client = pooler.client("u", "traffic_pipeline");
    let mut other = pooler.client("u", "traffic_pipeline");
    let piece = |sql: &str| [message::parse("", sql), message::bind("", "", &[]), message::execute("", 0)].concat();
    let bytes = [
        [piece("select 1"), piece("select 1/0"), piece("select 2"), message::sync()].concat(),
        [piece("select 3"), message::sync()].concat(),
        [piece("begin"), piece("nonsense"), message::sync()].concat(),
        [piece("rollback"), piece("select 4"), message::sync()].concat(),
    ]
    .concat();
    client.peer.send(&bytes);
    other.ask("select 'other'");
    let answers: Vec<_> = (0..4).map(|_| client.answer()).collect();
    let summary: Vec<_> = answers
        .iter()
        .map(|answer| {
            let rows = answer.rows.iter().map(|row| row[0].clone().unwrap_or_default()).collect::<Vec<_>>().join(" ");
            let codes = answer.errors.iter().map(|error| error.code.clone()).collect::<Vec<_>>().join(" ");
            format!("{rows}|{codes}|{}", answer.status)
        })
        .collect();
    assert_eq!(summary, ["1|22012|I", "3||I", "|42601|E", "4||I"]);
    assert_eq!(other.answer().value(), "other");
    assert_eq!(client.value("select 'still here'"), "still here");
}

pub(crate) fn copy_in_the_extended_protocol_may_bring_its_sync_early(house: &House) {
    let pooler = house.pooler("traffic_copy_extended", &["default_pool_size = 1"]);
    let mut client = pooler.client("u", "traffic_copy_extended");
    let mut other = pooler.client("u", "traffic_copy_extended");
    client.run("create table t (a int)");
    let ask = [message::parse("", "copy t from stdin"), message::bind("", "", &[]), message::execute("", 0)].concat();
    let rows =
        |text: &str| [message::frame(b'd', text.as_bytes()), message::frame(b'c', &[]), message::sync()].concat();
    for early in [false, true] {
        client.peer.send(&[ask.clone(), if early { message::sync() } else { message::frame(b'H', &[]) }].concat());
        wait_for_kind(&mut client, b'G');
        client.peer.send(&rows("1\n2\n"));
        assert_eq!(client.answer().tags, ["COPY 2"]);
        assert_eq!(other.value("select count(*) from t"), if early { "4" } else { "2" });
    }
    // PostgreSQL refuses the rows: the rest of them is dropped, and no client reads another client's answers.
    client.peer.send(&[ask, message::sync()].concat());
    wait_for_kind(&mut client, b'G');
    client.peer.send(&rows(&"no number\n".repeat(50_000)));
    let mut codes = Vec::new();
    let answer = client.answer();
    codes.extend(answer.errors.iter().map(|error| error.code.clone()));
    assert_eq!(codes, ["22P02"]);
    assert_eq!(other.value("select count(*) from t"), "4");
}

pub(crate) fn ten_thousand_queries_in_one_write_are_answered_in_order(house: &House) {
    let pooler = house.pooler("traffic_pipelined", &["default_pool_size = 2"]);
    let mut client = pooler.client("u", "traffic_pipelined");
    let bytes: Vec<u8> = (0..10_000).flat_map(|number| message::query(&format!("select {number}"))).collect();
    client.peer.send(&bytes);
    for number in 0..10_000 {
        assert_eq!(client.answer().value(), number.to_string());
    }
    let piece = |number: usize| {
        let sql = format!("select {number}");
        [message::parse("", &sql), message::bind("", "", &[]), message::execute("", 0), message::sync()].concat()
    };
    client.peer.send(&(0..5_000).flat_map(piece).collect::<Vec<u8>>());
    for number in 0..5_000 {
        assert_eq!(client.answer().value(), number.to_string());
    }
}

pub(crate) fn python_works_through_it(house: &House) {
    let pooler = house.pooler("traffic_python", &[]);
    let script = "
import sys
try:
    import psycopg2
except ImportError:
    print('no psycopg2'); sys.exit()
c = psycopg2.connect(host='127.0.0.1', port=int(sys.argv[1]), user='u', dbname='traffic_python')
k = c.cursor()
k.execute('create table p (a int, b text)')
k.executemany('insert into p values (%s, %s)', [(i, 'x' * i) for i in range(100)])
c.commit()
k.execute('select sum(a), sum(length(b)) from p')
print(k.fetchone())
";
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        Command::new(python)
            .args(["-c", "import psycopg2"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    match python {
        None => skip("python3 with psycopg2 is not installed"),
        Some(python) => {
            let ended = run(Command::new(python).args(["-c", script, &pooler.port().to_string()]), MINUTE);
            assert_eq!(ended.success(), "(4950, 4950)\n");
        }
    }
}

fn wait_for_kind(client: &mut Client, kind: u8) {
    while client.peer.frame().expect("an answer").tag != kind {}
}

fn expect_all(report: &str, count: u32) {
    assert!(report.contains(&format!("number of transactions actually processed: {count}/{count}")), "{report}");
    assert!(!report.contains("failed transactions") || report.contains("failed transactions: 0"), "{report}");
}
