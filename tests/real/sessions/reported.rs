//! Parameters that servers report: a client is told of its own changes, and of nobody else's.

use std::sync::atomic::{AtomicUsize, Ordering};

use tests::client::Client;
use tests::fake_server::FakeServer;
use tests::message::{Complaint, bind, execute, frame, parse, query, read_strings, strings, sync};
use tests::peer::Peer;
use tests::pooler::Ini;

use crate::house::House;

/// What the client is told of parameters in an answer, and the errors.
fn told(client: &mut Client, messages: &[u8]) -> Vec<String> {
    client.peer.send(messages);
    let mut told = Vec::new();
    loop {
        let frame = client.peer.frame().expect("an answer");
        match frame.tag {
            b'S' => told.push(read_strings(&frame.body, 2).0.join("=")),
            b'E' => told.push(Complaint::read(&frame).text),
            b'Z' => {
                // PostgreSQL reports them in any order.
                told.sort();
                return told;
            }
            _ => {}
        }
    }
}

fn executed(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", "", &[]), execute("", 0), sync()].concat()
}

/// Regression: a client was not told of a value that its server had from another client, and was told what the pooler changed for
/// others.
pub(crate) fn a_client_is_told_of_its_own_changes_and_of_nobody_elses(house: &House) {
    if house.is_older_than(14, "the report of default_transaction_read_only") {
        return;
    }
    house.postgres.database("reported");
    house.postgres.client("reported").run("create role reported_one; create role reported_two");
    let both = [
        "set default_transaction_read_only = on",
        "select 1",
        "set default_transaction_read_only = on; set intervalstyle = 'iso_8601'",
        "set intervalstyle = 'iso_8601'",
        "set default_transaction_read_only = off",
        "begin; set default_transaction_read_only = on; set intervalstyle = 'sql_standard'; rollback",
        "begin; set default_transaction_read_only = on; set local intervalstyle = 'sql_standard'; commit",
        "set session characteristics as transaction read only",
        "select set_config('default_transaction_read_only', 'off', false)",
        "set timezone = 'Asia/Tokyo'",
        "reset all",
        "set default_transaction_read_only = maybe",
        "discard all",
    ];
    let following = [
        "set role reported_one",
        "set role reported_one; set default_transaction_read_only = on",
        "select 1",
        "reset role",
        "set session authorization reported_two",
        "set role none",
        "reset session authorization",
        "do $$ begin execute 'set role reported_two'; end $$",
        "discard all",
    ];
    for (state, steps) in [("follow", [&both[..], &following].concat()), ("pgbouncer", both.to_vec())] {
        let settings = ["pool_mode = transaction", "default_pool_size = 1", &format!("session_state = {state}")];
        let ini = settings.iter().fold(Ini::new(&house.line("reported")), |ini, setting| ini.set(setting));
        let pooler = house.start(&ini);
        let login = |address, options| {
            let parameters = [("user", "u"), ("database", "reported"), ("options", options)];
            Client::try_login(address, &parameters).expect("the login succeeds")
        };
        // Where session state does not follow, a reset goes back to the server's own value, as with PgBouncer.
        let with_options = "-c default_transaction_read_only=on -c intervalstyle=postgres_verbose";
        for options in [""].into_iter().chain((state == "follow").then_some(with_options)) {
            let clients = || {
                let (pooled, direct) = (login(pooler.address(), options), login(house.postgres.address(), options));
                assert_eq!(pooled.parameters, direct.parameters);
                (pooled, direct)
            };
            let mut pairs = [clients(), clients()];
            // The two clients take turns on one server, one of them a few steps behind the other.
            for round in 0..3 * steps.len() {
                for (at, (pooled, direct)) in pairs.iter_mut().enumerate() {
                    let sql = steps[(round * (at + 1) + 5 * at) % steps.len()];
                    for messages in [query(sql), executed("select 1")] {
                        let (ours, theirs) = (told(pooled, &messages), told(direct, &messages));
                        assert_eq!(ours, theirs, "{state}, {options}, round {round}, client {at}: {sql}");
                    }
                }
            }
        }
    }
}

/// Regression: a client had set a value that its server had by itself. A statement that nobody could read was then taken for a
/// reset, after which the client had its startup value again. Found by random programs.
pub(crate) fn a_text_that_nobody_can_read_resets_no_value_that_the_server_has_by_itself(house: &House) {
    let pooler = house.pooler("reported_unread", &["pool_mode = transaction", "default_pool_size = 1"]);
    let login = |address, name| {
        let parameters = [("user", "u"), ("database", "reported_unread"), ("application_name", name)];
        Client::try_login(address, &parameters).expect("the login succeeds")
    };
    let mut other = pooler.client("u", "reported_unread");
    other.run("select 1");
    let mut pair = [login(pooler.address(), "till"), login(house.postgres.address(), "till")];
    let reset = "do $$ begin execute 'reset application_name'; end $$";
    let set = "set application_name = ''";
    for (steps, others) in [
        (&[set][..], "discard all"),
        (&["/* broken", "execute unknown", "select 1"], "select 1"),
        // What the session itself has set can be reset by what nobody can read, also where the value remains.
        (&[set, "do $$ begin null; end $$", reset], "select 1"),
        (&["begin; set application_name = ''; commit", "reset all"], "discard all"),
        (&["set application_name = 'desk'", reset], "discard all"),
        (&[set, "begin; set application_name = 'desk'; rollback"], "discard all"),
        (&["/* broken", "begin; set local application_name = 'desk'; execute unknown", "rollback"], "discard all"),
    ] {
        for sql in steps {
            // What a reset that nobody can read leaves is reported once it has been found out.
            let said = pair
                .each_mut()
                .map(|client| [query(sql), query("select 1")].map(|sql| told(client, &sql)).concat().pop());
            assert_eq!(said[0], said[1], "{sql} of {steps:?}");
            let shown = pair.each_mut().map(|client| client.query("show application_name").rows);
            assert_eq!(shown[0], shown[1], "{sql}");
        }
        other.run(others);
    }
}

/// The messages of a new server are counted anew, those of the session go on.
pub(crate) fn a_reset_is_told_by_the_next_server_too(house: &House) {
    let pooler = house.pooler("reported_anew", &["pool_mode = transaction", "default_pool_size = 1"]);
    let shown = house.postgres.client("reported_anew").query("show timezone").rows;
    let zone = shown[0][0].clone().expect("a time zone");
    let login = |address| {
        let parameters = [("user", "u"), ("database", "reported_anew"), ("timezone", "Asia/Tokyo")];
        Client::try_login(address, &parameters).expect("the login succeeds")
    };
    let mut pair = [login(pooler.address()), login(house.postgres.address())];
    // A statement that is prepared by SQL follows its client, so that something of the session is always remembered.
    pair.iter_mut().for_each(|client| client.run("prepare p as select 1"));
    for round in 0..3 {
        for _ in 0..20 {
            pair.iter_mut().for_each(|client| client.run("select 1"));
        }
        // The value with which the server begins, so that the server has nothing to report.
        let said = pair.each_mut().map(|client| told(client, &query(&format!("set timezone = '{zone}'"))));
        assert_eq!(said[0], said[1], "round {round}");
        pooler.console("RECONNECT reported_anew");
        let said = pair.each_mut().map(|client| told(client, &query("reset timezone")));
        assert_eq!(said[0], said[1], "round {round}");
    }
}

/// Regression: where a `Query` follows a reset in one batch, PostgreSQL reports the reset before the first `ReadyForQuery`, and
/// the pooler did before the last. Found by random programs.
pub(crate) fn a_reset_in_a_batch_is_told_with_the_ready_for_query_behind_it(house: &House) {
    if house.is_older_than(14, "the report of all parameters before ReadyForQuery") {
        return;
    }
    let pooler = house.pooler("reported_batch", &["pool_mode = transaction", "default_pool_size = 1"]);
    let executed = |sql: &str| [parse("", sql), bind("", "", &[]), execute("", 0)].concat();
    let (set, reset) = ("set timezone = 'Europe/Berlin'", "set timezone to default");
    for zone in [None, Some("Asia/Tokyo")] {
        let login = |address| {
            let parameters = [("user", "u"), ("database", "reported_batch")];
            let parameters = parameters.into_iter().chain(zone.map(|zone| ("timezone", zone))).collect::<Vec<_>>();
            Client::try_login(address, &parameters).expect("the login succeeds")
        };
        let mut pair = [login(pooler.address()), login(house.postgres.address())];
        for (name, messages) in [
            ("executed, and a query", [executed(reset), query("select 1"), sync()]),
            ("an error behind it", [executed(reset), query("select 1/0"), sync()]),
            ("queries", [query(reset), query("select 1"), query("select 2")]),
            ("set and reset", [query("set timezone = 'Europe/Rome'"), query(reset), query("select 1")]),
            ("reset and set", [query(reset), query("set timezone = 'Europe/Rome'"), query("select 1")]),
            (
                "set for a transaction",
                [query("begin; set timezone to default"), query("set local timezone = 'Europe/Rome'"), query("commit")],
            ),
            ("reset, set and reset", [query(reset), query("set timezone = 'Europe/Rome'"), query(reset)]),
        ] {
            let readies = messages.iter().filter(|messages| [b'Q', b'S'].contains(&messages[0])).count();
            let said = pair.each_mut().map(|client| {
                told(client, &query(set));
                client.peer.send(&messages.concat());
                (0..readies).map(|_| told(client, &[])).collect::<Vec<_>>()
            });
            assert_eq!(said[0], said[1], "{zone:?}: {name}");
        }
        // A batch that has no Sync yet stands behind a query.
        let said = pair.each_mut().map(|client| {
            let first = told(client, &query(set));
            client.peer.send(&[query("select 1"), executed(reset), frame(b'H', b"")].concat());
            [first, told(client, &[]), told(client, &sync())]
        });
        assert_eq!(said[0], said[1], "{zone:?}: a batch behind a query");
        for sql in [
            "begin",
            reset,
            "set local timezone = 'Europe/Rome'",
            "select 1",
            reset,
            "set local timezone to default",
            "rollback",
            "begin",
            reset,
            "set local timezone = 'Europe/Rome'",
            "commit",
            "select 1",
        ] {
            let said = pair.each_mut().map(|client| told(client, &query(sql)));
            assert_eq!(said[0], said[1], "{zone:?}: {sql}");
        }
    }
}

/// Regression: an option that the servers do not report, and that `track_extra_parameters` names, was dropped.
pub(crate) fn a_tracked_startup_option_that_servers_do_not_report_is_a_setting(house: &House) {
    let tracked =
        "track_extra_parameters = IntervalStyle, search_path, statement_timeout, default_transaction_isolation";
    let database = "reported_startup";
    let pooler = house.pooler(database, &["pool_mode = transaction", "default_pool_size = 1", tracked]);
    let options = "-c search_path=zz -c statement_timeout=4321 -c default_transaction_isolation=serializable";
    let login = |address, options: &str| {
        Client::try_login(address, &[("user", "u"), ("database", database), ("options", options)])
    };
    let shown = "select current_setting('search_path') || '|' || current_setting('statement_timeout') || '|' ||
        current_setting('default_transaction_isolation')";
    let (mut client, mut other) = (login(pooler.address(), options).expect("let in"), pooler.client("u", database));
    let mut direct = login(house.postgres.address(), options).expect("let in");
    let initial = other.value(shown);
    for sql in
        ["select 1", "set search_path = yy", "do $$ begin perform set_config('a.b', '1', false); end $$", "reset all"]
    {
        client.run(sql);
        direct.run(sql);
        assert_eq!(other.value(shown), initial);
        assert_eq!(client.value(shown), direct.value(shown), "{sql}");
    }
    assert_eq!(client.parameters.keys().collect::<Vec<_>>(), direct.parameters.keys().collect::<Vec<_>>());
    // In session pooling it is set on the client's server, and on nobody else's.
    for state in ["follow", "pgbouncer"] {
        let settings = ["pool_mode = session", "default_pool_size = 1", tracked, &format!("session_state = {state}")];
        let ini = settings.iter().fold(Ini::new(&house.line(database)), |ini, setting| ini.set(setting));
        let pooler = house.start(&ini);
        let mut direct = login(house.postgres.address(), options).expect("let in");
        let mut client = login(pooler.address(), options).expect("let in");
        for sql in ["select 1", "set search_path = yy", "reset work_mem"] {
            client.run(sql);
            direct.run(sql);
            assert_eq!(client.value(shown), direct.value(shown), "{sql}");
        }
        drop(client);
        assert_eq!(pooler.client("u", database).value(shown), initial);
    }
    // Where session state does not follow, nobody would set it.
    let settings = ["pool_mode = transaction", "session_state = pgbouncer", tracked];
    let ini = settings.iter().fold(Ini::new(&house.line(database)), |ini, setting| ini.set(setting));
    let pooler = house.start(&ini);
    let refused = login(pooler.address(), "-c statement_timeout=4321").map(drop).expect_err("refused");
    assert_eq!(refused.text, "unsupported startup parameter: statement_timeout");
}

/// Regression: all clients were told the version of the first server for ever.
pub(crate) fn a_server_of_another_version_is_told_to_old_and_new_clients(house: &House) {
    let logins = AtomicUsize::new(0);
    let server = FakeServer::open(move |stream| {
        let Ok(mut peer) = Peer::accepted(stream) else { return };
        let Ok(_) = peer.packet() else { return };
        let version = ["16.4", "17.2"][logins.fetch_add(1, Ordering::SeqCst).min(1)];
        let parameters = [["server_version", version], ["client_encoding", "UTF8"], ["in_hot_standby", "off"]];
        let parameters = parameters.map(|parameter| frame(b'S', &strings(&parameter))).concat();
        peer.send(&[frame(b'R', &[0; 4]), parameters, frame(b'K', &[0; 8]), frame(b'Z', b"I")].concat());
        while let Ok(message) = peer.frame() {
            if message.tag == b'Q' {
                peer.send(&[frame(b'C', &strings(&["SELECT 0"])), frame(b'Z', b"I")].concat());
            }
        }
    });
    let line = format!("upgraded = host=127.0.0.1 port={}", server.port());
    let ini = Ini::new(&line)
        .set("pool_mode = transaction")
        .set("session_state = pgbouncer")
        .set("server_tls_sslmode = disable");
    let pooler = house.start(&ini);
    let mut old = pooler.client("u", "upgraded");
    old.run("select 1");
    assert_eq!(old.parameters["server_version"], "16.4");
    pooler.console("PAUSE");
    pooler.console("RESUME");
    assert_eq!(told(&mut old, &query("select 1")), ["server_version=17.2"]);
    assert_eq!(told(&mut old, &query("select 1")), [""; 0]);
    assert_eq!(pooler.client("u", "upgraded").parameters["server_version"], "17.2");
}
