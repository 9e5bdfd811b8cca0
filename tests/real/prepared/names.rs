//! One name space of prepared statements: those of the protocol and those of SQL.

use tests::client::{Answer, Client};
use tests::message::{bind, describe, execute, frame, parse, query, strings, sync};
use tests::pooler::Pooler;

use crate::house::House;

/// Messages that are sent at once.
pub(super) type Said = Vec<Vec<u8>>;

fn close(name: &str) -> Vec<u8> {
    frame(b'C', &[&b"S"[..], &strings(&[name])].concat())
}

fn close_portal(name: &str) -> Vec<u8> {
    frame(b'C', &[&b"P"[..], &strings(&[name])].concat())
}

/// Parse and Describe, as drivers prepare.
fn prepare(name: &str, sql: &str) -> Said {
    vec![parse(name, sql), describe(b'S', name), sync()]
}

/// Bind and Execute of a statement.
fn run(name: &str) -> Said {
    vec![bind("", name, &[]), execute("", 0), sync()]
}

/// The same for an unnamed statement.
fn say(sql: &str) -> Said {
    [vec![parse("", sql), describe(b'S', "")], run("")].concat()
}

fn ask(sql: &str) -> Said {
    vec![query(sql)]
}

/// The answers, without the positions in error messages.
pub(super) fn told(client: &mut Client, said: &Said) -> Vec<String> {
    client.peer.send(&said.concat());
    let answers = said.iter().filter(|message| matches!(message[0], b'Q' | b'S')).count();
    (0..answers).map(|_| shown(&client.answer())).collect()
}

fn shown(answer: &Answer) -> String {
    let errors: Vec<_> = answer.errors.iter().map(|error| format!("{} {}", error.code, error.text)).collect();
    let columns: Vec<_> = answer.columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    format!("{columns:?} {:?} {:?} {errors:?} {}", answer.rows, answer.tags, answer.status)
}

/// A pooler with two servers, and clients through the pooler and directly connected.
pub(super) struct Stage<'a> {
    house: &'a House,
    pooler: Pooler,
    database: &'static str,
}

impl<'a> Stage<'a> {
    fn open(house: &'a House, database: &'static str) -> Self {
        Self::with_servers(house, database, "default_pool_size = 2")
    }

    pub(super) fn with_servers(house: &'a House, database: &'static str, servers: &str) -> Self {
        let settings = ["pool_mode = transaction", servers, "max_prepared_statements = 9"];
        let pooler = house.pooler(database, &settings);
        let mut setup = house.postgres.client(database);
        setup.run("create table t (a int); insert into t values (7); grant all on t to public; grant all on schema public to public");
        Self { house, pooler, database }
    }

    pub(super) fn pooled(&self) -> Client {
        self.pooler.client("u", self.database)
    }

    pub(super) fn direct(&self) -> Client {
        Client::login(self.house.postgres.address(), "u", self.database)
    }

    /// Sends the same messages through the pooler and directly. Before each step other clients have used each of the free
    /// servers, and have different statements of the same names.
    fn compare(&self, steps: &[Said]) {
        let (mut pooled, mut direct) = (self.pooled(), self.direct());
        let mut others = [self.pooled(), self.pooled()];
        for other in &mut others {
            other.run("prepare \"of SQL\" as select 'not yours'");
            told(other, &prepare("s1", "select 'not yours either'"));
        }
        for (at, said) in steps.iter().enumerate() {
            expect_same(&mut pooled, &mut direct, at, said);
            for other in &mut others {
                let told = told(other, &ask("execute s1"));
                assert!(told[0].contains("not yours either"), "step {at}: {told:?}");
                assert_eq!(other.value("execute \"of SQL\""), "not yours", "step {at}");
                pooled_is_elsewhere(other);
            }
        }
    }
}

/// One step of one client, through the pooler and directly.
fn expect_same(pooled: &mut Client, direct: &mut Client, at: usize, said: &Said) {
    let (ours, theirs) = (told(pooled, said), told(direct, said));
    let texts: Vec<_> = said.iter().map(|message| String::from_utf8_lossy(message).replace('\0', " ")).collect();
    assert_eq!(ours, theirs, "step {at}: {texts:?}");
}

/// Moves the next client to another server than the one before.
fn pooled_is_elsewhere(other: &mut Client) {
    other.run("begin; select 1; commit");
}

/// sqlx does this for the information that `describe` and `query!` give about a statement.
pub(crate) fn what_the_protocol_has_prepared_is_executed_and_explained_by_sql(house: &House) {
    if house.is_older_than(12, "plan_cache_mode") {
        return;
    }
    let stage = Stage::open(house, "names");
    let explain = "EXPLAIN (VERBOSE, FORMAT JSON, COSTS off) EXECUTE s1(NULL)";
    stage.compare(&[
        // The number of custom plans is counted per server.
        ask("set plan_cache_mode = force_custom_plan"),
        prepare("s1", "select a, $1::text as b from t where a = 7"),
        ask(explain),
        ask("explain (analyze, costs off, timing off, summary off, buffers off) execute s1('x')"),
        ask("execute s1('x')"),
        say("execute s1('x')"),
        say(explain),
        // The same by a named statement.
        prepare("e1", explain),
        run("e1"),
        run("e1"),
        ask("create temp table c on commit drop as execute s1('y')"),
        ask("begin"),
        ask("execute s1('x')"),
        vec![bind("", "s1", &["z"]), execute("", 0), sync()],
        ask(explain),
        say(explain),
        ask("commit"),
        // All in one packet, and with several statements in one text.
        [prepare("s2", "select 2 as two"), ask("execute s2"), ask("select 1; execute s2; execute s1('x')")].concat(),
        [prepare("s3", "select 3"), say("execute s3"), vec![close("s3"), sync()], ask("execute s3")].concat(),
        // A closed statement is gone, and a name that is used again has the new meaning.
        ask("begin"),
        ask("execute s2"),
        vec![close("s2"), sync()],
        prepare("s2", "select 'new' as two"),
        ask("execute s2"),
        vec![close("s2"), sync()],
        ask("execute s2"),
        ask("rollback"),
        ask("begin"),
        vec![close("s1"), sync()],
        run("s1"),
        ask("rollback"),
        ask("execute s1('x')"),
        ask("explain execute nobody"),
        // Errors are passed on.
        prepare("s4", "select 1/a from t where a = $1"),
        ask("execute s4('x')"),
        ask("execute s4"),
        ask("explain execute s4(1, 2)"),
        prepare("s5", "set datestyle = 'German'"),
        ask("execute s5"),
        ask("show datestyle"),
    ]);
}

/// A name from one of the two may be used, refused and dropped by the other.
pub(crate) fn names_of_the_protocol_and_of_sql_are_one(house: &House) {
    let stage = Stage::open(house, "names_one");
    let names = "select count(*) from pg_prepared_statements where from_sql";
    stage.compare(&[
        // A name from SQL.
        ask("prepare q1 as select 'sql' as a"),
        run("q1"),
        vec![describe(b'S', "q1"), sync()],
        prepare("q1", "select 'protocol'"),
        [vec![parse("q1", "select 'protocol'")], run("q1")].concat(),
        run("q1"),
        ask("execute q1"),
        vec![close("q1"), sync()],
        run("q1"),
        ask("execute q1"),
        ask(names),
        prepare("q1", "select 'protocol' as b"),
        run("q1"),
        ask("execute q1"),
        // A name from the protocol.
        ask("prepare q1 as select 'again'"),
        ask("execute q1"),
        ask("select 1; prepare q1 as select 'again'"),
        ask("deallocate q1"),
        run("q1"),
        ask("execute q1"),
        ask("prepare q1 as select 'again' as c"),
        run("q1"),
        ask("deallocate all"),
        // Both in one transaction.
        ask("begin; prepare q2 as select 'sql'"),
        run("q2"),
        prepare("q2", "select 'protocol'"),
        ask("rollback"),
        run("q2"),
        ask("begin"),
        vec![close("q2"), sync()],
        ask("execute q2"),
        ask("rollback"),
        ask("begin"),
        prepare("q2", "select 'protocol' as d"),
        ask("execute q2"),
        ask("deallocate q2"),
        ask("execute q2"),
        ask("rollback"),
        run("q2"),
        ask("begin"),
        prepare("q2", "select 'protocol' as d"),
        ask("execute q2"),
        vec![close("q2"), sync()],
        ask("prepare q2 as select 'sql' as e"),
        run("q2"),
        ask("commit"),
        ask("execute q2"),
        // After a call that may have set anything.
        ask("create or replace function touch() returns text language sql as $$ select set_config('app.other', 'x', false) $$"),
        ask("begin"),
        ask("select touch()"),
        ask("prepare q5 as select '0', current_setting('work_mem')"),
        ask("show all"),
        vec![close("q5"), sync()],
        ask(names),
        ask("commit"),
        // By a text of several statements, and by the extended protocol.
        prepare("q3", "select 3"),
        ask("select 1; deallocate q3; select 2"),
        run("q3"),
        prepare("q3", "select 4"),
        say("deallocate q3"),
        run("q3"),
        prepare("q3", "select 5"),
        ask("select 1/0; deallocate q3"),
        run("q3"),
        ask("deallocate q3; select 1/0"),
        run("q3"),
        prepare("q3", "select 6"),
        ask("deallocate all"),
        run("q3"),
        ask("execute q2"),
        ask(names),
        [prepare("q4", "select 7"), ask("deallocate q4")].concat(),
        run("q4"),
        [ask("prepare q5 as select 8"), prepare("q5", "select 9"), run("q5")].concat(),
    ]);
}

/// Regression: the statement that had been deallocated was executed, without an error.
pub(crate) fn a_name_given_anew_behind_its_deallocation_means_the_new_text(house: &House) {
    // A server that has no statement at all cannot tell behind an unanswered DEALLOCATE ALL (decision 0007).
    let stage = Stage::with_servers(house, "names_anew", "default_pool_size = 1");
    house.postgres.client("names_anew").run(
        "create function drop_them() returns int language plpgsql as \
         $$ begin execute 'deallocate all'; return 1; end $$",
    );
    let anew = |text: &str| vec![parse("a", &format!("select '{text}'")), bind("", "a", &[]), execute("", 0), sync()];
    let together = |sql: &str, text: &str| [vec![query(sql)], anew(text)].concat();
    let unnamed = |sql: &str| vec![parse("", sql), bind("", "", &[]), execute("", 0)];
    let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
    let steps = [
        anew("old"),
        // In one segment, without waiting for the answer.
        together("deallocate all", "all"),
        together("discard all", "discarded"),
        together("select 1; deallocate all", "second"),
        [unnamed("deallocate all"), anew("by Parse")].concat(),
        [unnamed("deallocate all"), vec![sync()], anew("by Parse and Sync")].concat(),
        run("a"),
        // It is not dropped where that fails.
        together("select 1/0; deallocate all", "never"),
        run("a"),
        ask("begin"),
        together("deallocate all", "in a transaction"),
        run("a"),
        ask("commit"),
        run("a"),
        // By SQL that nobody reads.
        ask("do $$ begin execute 'deallocate all'; end $$"),
        anew("behind a DO"),
        run("a"),
        ask("select drop_them()"),
        anew("behind a function"),
        run("a"),
        ask("begin"),
        ask("select drop_them()"),
        anew("behind a function in a transaction"),
        run("a"),
        ask("rollback"),
        run("a"),
        // In use all the same.
        [anew("first"), anew("second"), anew("third"), anew("fourth"), anew("fifth")].concat(),
        run("a"),
        // The first fails, so that the name is free for the second.
        vec![
            close("b"),
            parse("b", "selec"),
            sync(),
            parse("b", "select 'b'"),
            bind("", "b", &[]),
            execute("", 0),
            sync(),
        ],
        run("b"),
    ];
    for (at, said) in steps.iter().enumerate() {
        expect_same(&mut pooled, &mut direct, at, said);
    }
}

/// Regression: such a name was refused as in use (42P05), or its old statement was still found.
pub(crate) fn a_name_that_sql_drops_in_the_same_pipeline_is_free(house: &House) {
    let stage = Stage::with_servers(house, "names_dropped", "default_pool_size = 1");
    let anew = |name: &str, text: &str| [vec![parse(name, &format!("select '{text}'"))], run(name)].concat();
    let unnamed = |sql: &str| vec![parse("", sql), bind("", "", &[]), execute("", 0)];
    let names = ["a", "b", "A", "quo\"ted"];
    let prepared: Said = names.iter().flat_map(|name| anew(name, &format!("old {name}"))).collect();
    let drops = [
        "deallocate all",
        "deallocate prepare all",
        "discard all",
        "select 1; deallocate all",
        "deallocate all; select 1",
        "deallocate a",
        "DeAllocate A",
        "deallocate prepare a",
        "select 1; deallocate a",
        "deallocate a; deallocate b",
        "deallocate \"A\"",
        "deallocate \"quo\"\"ted\"",
        "deallocate nobody",
        "select 1/0; deallocate a",
        "deallocate a; select 1/0",
        "deallocate all; select 1/0",
        "select 1/0; deallocate all",
        "begin; deallocate all; rollback",
        "begin; deallocate a",
        "rollback; deallocate a",
        "/* a comment */ deallocate /* another */ a -- and one more",
        "discard plans; deallocate a",
    ];
    let tails: [(&str, Said); 9] = [
        ("given anew", anew("a", "new")),
        ("given twice", [anew("a", "new"), anew("a", "newer")].concat()),
        (
            "given in one batch",
            vec![parse("a", "select 'new'"), parse("A", "select 'NEW'"), bind("", "a", &[]), execute("", 0), sync()],
        ),
        ("used", run("a")),
        ("described", vec![describe(b'S', "a"), sync()]),
        ("closed and given", [vec![close("a")], anew("a", "new")].concat()),
        ("said by SQL", [vec![sync()], ask("execute a"), ask("deallocate a"), say("execute \"A\"")].concat()),
        ("skipped", [vec![describe(b'S', "nobody")], anew("a", "new"), run("a")].concat()),
        ("behind another", [vec![sync()], ask("select 2"), anew("quo\"ted", "new")].concat()),
    ];
    let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
    let mut other = stage.pooled();
    // The server has all statements of the client, one of them, or none at all. All of this in turn, as each with each takes long.
    let there = ["all", "one", "none"].into_iter().flat_map(|there| [(there, false), (there, true)]);
    let mut turns = there.cycle();
    let mut differences = Vec::new();
    for (place, drop) in drops.into_iter().enumerate() {
        let forms = [
            ("query", ask(drop)),
            ("batch", unnamed(drop)),
            ("behind a query", [ask("select 1"), ask(drop)].concat()),
            ("batch and Sync", [unnamed(drop), vec![sync()]].concat()),
        ];
        // Another drop meets the others at another place of the circle.
        turns.nth(place % 5);
        for ((form, dropping), (tail, then)) in forms.iter().flat_map(|form| tails.iter().map(move |tail| (form, tail)))
        {
            let (there, is_inside) = turns.next().expect("a circle");
            let what = format!("{drop}, by {form}, {tail}, {there} on the server, inside: {is_inside}");
            let mut same = |said: &Said, step: &str| {
                let (ours, theirs) = (told(&mut pooled, said), told(&mut direct, said));
                if ours != theirs {
                    differences.push(format!("{what}: {step}\n{ours:?}\n{theirs:?}"));
                }
            };
            same(&[ask("deallocate all"), prepared.clone()].concat(), "preparing");
            if there != "all" {
                told(&mut other, &ask("discard all"));
            }
            let inside = if is_inside { "begin" } else { "" };
            same(&[if there == "one" { run("b") } else { vec![] }, ask(inside)].concat(), "beginning");
            same(&[dropping.clone(), then.clone()].concat(), "the pipeline");
            same(&[ask("rollback"), names.map(run).concat()].concat(), "what is left");
        }
    }
    let shown = &differences[..differences.len().min(10)];
    assert!(differences.is_empty(), "{} differ: {shown:#?}", differences.len());
}

/// Regression: the notice about a statement came again, whenever a server was given the statement under its own name.
pub(crate) fn a_notice_about_a_statement_comes_once(house: &House) {
    let stage = Stage::open(house, "names_noticed");
    let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
    let mut said = |messages: &Said| {
        let [ours, theirs] = [&mut pooled, &mut direct].map(|client| {
            client.peer.send(&messages.concat());
            let answer = client.answer();
            let notices: Vec<_> = answer.notices.iter().map(|notice| notice.text.clone()).collect();
            (shown(&answer), notices)
        });
        assert_eq!(ours, theirs);
        ours.1.len()
    };
    assert_eq!(said(&ask("set standard_conforming_strings = off")), 0);
    assert_eq!(said(&prepare("noticed", "select 'a\\d'")), 1);
    assert_eq!(said(&say("execute noticed")), 0);
    assert_eq!(said(&ask("execute noticed")), 0);
    assert_eq!(said(&run("noticed")), 0);
}

/// A text that arrives in pieces is still parsed before its server gets it.
/// Regression: a WARNING that a query of the pooler's own had failed, where the client's batch had.
pub(crate) fn a_failed_batch_that_names_a_statement_is_no_failure_of_the_pooler(house: &House) {
    let stage = Stage::open(house, "names_quiet");
    let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
    let unsynced = |sql: &str| vec![parse("", sql), bind("", "", &[]), execute("", 0)];
    let steps = [
        prepare("s1", "select 1"),
        [vec![query("begin"), query("select 1/0"), query("execute s1")], vec![query("rollback")]].concat(),
        [vec![query("begin")], unsynced("select 1/0"), vec![sync(), query("execute s1"), query("rollback")]].concat(),
        [vec![query("begin")], unsynced("select 1/0"), unsynced("execute s1"), vec![sync(), query("rollback")]]
            .concat(),
        ask("begin"),
        [vec![query("select 1/0"), query("execute s1")]].concat(),
        ask("execute s1"),
        ask("rollback"),
        ask("execute s1"),
    ];
    for (at, said) in steps.iter().enumerate() {
        expect_same(&mut pooled, &mut direct, at, said);
        let log = stage.pooler.log();
        assert!(!log.contains("WARNING") && !log.contains("current transaction is aborted"), "{at}: {log}");
    }
}

pub(crate) fn a_text_in_pieces_uses_names_of_the_protocol(house: &House) {
    let stage = Stage::open(house, "names_torn");
    let (mut client, explain) = (stage.pooled(), query("explain execute s1"));
    told(&mut client, &prepare("s1", "select 1"));
    client.run("begin");
    for cut in 1..explain.len() {
        let (first, rest) = explain.split_at(cut);
        client.peer.send(first);
        // The pooler has read the first piece when it answers another client's command that came after it.
        stage.pooler.console("show version");
        client.peer.send(rest);
        assert!(client.answer().errors.is_empty(), "cut at {cut}");
    }
    client.run("commit");
}

/// Regression: a client closed its last statement, and named it in a text of which only the header came along. The server had
/// the statement under that name still, and executed it. Found by random programs.
pub(crate) fn a_text_in_pieces_does_not_use_a_name_that_was_closed_before(house: &House) {
    let stage = Stage::open(house, "names_closed_torn");
    let (mut client, messages) = (stage.pooled(), [close("s1"), query("execute s1")].concat());
    for cut in 1..messages.len() {
        client.run("begin");
        told(&mut client, &[prepare("s1", "select 1"), vec![query("execute s1")]].concat());
        let (first, rest) = messages.split_at(cut);
        client.peer.send(first);
        // The pooler has read the first piece when it answers another client's command that came after it.
        stage.pooler.console("show version");
        client.peer.send(rest);
        assert_eq!(client.answer().error().code, "26000", "cut at {cut}");
        client.run("rollback");
    }
}

/// PostgreSQL uses 63 bytes of a name, so that two names with the same beginning are the same: what is known of the one must
/// not be applied to the other separately.
pub(crate) fn of_a_long_name_as_much_counts_as_postgresql_looks_at(house: &House) {
    let stage = Stage::open(house, "names_long");
    let mut setup = house.postgres.client("names_long");
    setup.run("create function touch() returns text language sql as $$ select set_config('app.other', 'x', false) $$");
    let [short, one, two] = ["", "one", "two"].map(|end| format!("{}{end}", "n".repeat(63)));
    // PostgreSQL closes a connection for a Describe of more than 10,000 bytes.
    let very_long = "v".repeat(9_000);
    stage.compare(&[
        prepare(&one, "select 1"),
        run(&two),
        run(&short),
        ask(&format!("execute {short}")),
        vec![close(&two), sync()],
        run(&one),
        prepare(&two, "select 2"),
        vec![bind(&one, &one, &[]), describe(b'P', &two), execute(&two, 0), close_portal(&two), sync()],
        ask(&format!("deallocate {short}")),
        run(&two),
        // Where SQL may have prepared the name, the server's own name is used.
        ask("begin"),
        ask("select touch()"),
        prepare(&one, "select 3"),
        run(&two),
        ask(&format!("execute {short}")),
        prepare(&very_long, "select 4"),
        run(&very_long),
        ask("commit"),
        run(&two),
        run(&very_long),
        vec![close(&very_long), sync()],
        run(&very_long[..63]),
    ]);
    let mut client = stage.pooled();
    told(&mut client, &prepare(&one, "select 'harmless'"));
    let refused = told(&mut client, &vec![parse(&two, "select 1"), sync()]);
    assert!(refused[0].contains("42P05"), "{refused:?}");
    told(&mut client, &vec![close(&two), sync()]);
    told(&mut client, &prepare(&two, "select set_config('app.who', $1, false)"));
    told(&mut client, &vec![bind("", &one, &["me"]), execute("", 0), sync()]);
    for _ in 0..3 {
        let mut other = stage.pooled();
        let who = other.value("select coalesce(nullif(current_setting('app.who', true), ''), '-')");
        assert_eq!(who, "-");
        pooled_is_elsewhere(&mut other);
    }
    assert_eq!(client.value("show app.who"), "me");
}

/// SQL truncates a long name at the end of a character, and the protocol at a byte: previously EXECUTE of the very name from
/// the protocol was refused.
pub(crate) fn a_long_name_that_sql_says_is_cut_as_by_postgresql(house: &House) {
    let stage = Stage::open(house, "names_long_sql");
    let [short, one, two] = ["", "one", "two"].map(|end| format!("{}{end}", "n".repeat(63)));
    let [letters, fewer] = [40, 31].map(|count| "ä".repeat(count));
    stage.compare(&[
        prepare(&one, "select 1"),
        ask(&format!("execute {one}")),
        ask(&format!("execute {two}")),
        say(&format!("execute {}", two.to_uppercase())),
        ask(&format!("explain execute {two}")),
        ask(&format!("execute \"{}\"", one.to_uppercase())),
        ask(&format!("prepare {two} as select 2")),
        ask(&format!("deallocate {two}")),
        run(&one),
        ask(&format!("prepare {two} as select 3")),
        ask(&format!("execute {one}")),
        ask(&format!("execute {short}")),
        run(&one),
        ask(&format!("deallocate prepare {one}")),
        ask(&format!("execute {two}")),
        ask(&format!("prepare \"{letters}\" as select 4")),
        ask(&format!("execute \"{letters}\"")),
        ask(&format!("execute \"{fewer}\"")),
        ask(&format!("deallocate \"{letters}\"")),
        ask(&format!("execute \"{fewer}\"")),
    ]);
}

/// A statement of the protocol has the same effects on the session when SQL executes it.
pub(crate) fn what_a_statement_sets_follows_who_executes_it_by_sql(house: &House) {
    let stage = Stage::open(house, "names_sets");
    let (mut one, mut two) = (stage.pooled(), stage.pooled());
    told(&mut one, &prepare("s1", "select set_config('app.who', $1, false)"));
    told(&mut two, &prepare("s1", "select set_config('app.who', 'two' || $1, false)"));
    for value in ["a", "b"] {
        one.run(&format!("execute s1('{value}')"));
        two.run(&format!("execute s1('{value}')"));
        assert_eq!((one.value("show app.who"), two.value("show app.who")), (value.into(), format!("two{value}")));
    }
    // The other way round, and where another Parse of the name has been refused since.
    two.run("prepare q1(text) as select set_config('app.who', $1, false)");
    for (client, name) in [(&mut one, "s1"), (&mut two, "q1")] {
        for value in ["c", "d", "e"] {
            told(client, &vec![bind("", name, &[value]), execute("", 0), sync()]);
            for _ in 0..2 {
                let mut other = stage.pooled();
                assert_eq!(
                    other.value("select coalesce(nullif(current_setting('app.who', true), ''), '-')"),
                    "-",
                    "{name}"
                );
            }
            assert_eq!(client.value("show app.who"), value, "{name}");
            assert!(told(client, &vec![parse(name, "select 1"), sync()])[0].contains("42P05"), "{name}");
        }
    }
}

/// Previously a name was free for the protocol in the transaction in which a text that cannot be analysed, or a function,
/// had prepared it.
pub(crate) fn a_name_that_sql_may_have_given_is_for_the_server_to_refuse(house: &House) {
    let stage = Stage::open(house, "names_hidden");
    let mut setup = house.postgres.client("names_hidden");
    setup.run("create function touch() returns text language sql as $$ select set_config('app.other', 'x', false) $$");
    setup.run("create function prepares(text) returns void language plpgsql as $$ begin execute 'prepare ' || $1 || ' as select 1'; end $$");
    let long = format!("prepare q2 as select '{}'", "x".repeat(100_000));
    let both = |name: &str| [vec![parse(name, "select 'protocol'")], run(name)].concat();
    // After a call that may have set anything, and so may have changed how texts are parsed.
    stage.compare(&[
        ask("begin"),
        ask("select touch()"),
        ask("prepare q1 as select 'in', 0; savepoint a"),
        vec![parse("q1", "fetch 2 from c1"), sync()],
        ask("rollback"),
        run("q1"),
    ]);
    for hidden in ["select prepares('q2')", "do $$ begin execute 'prepare q2 as select 1'; end $$", &long] {
        stage.compare(&[
            ask("begin"),
            ask(hidden),
            prepare("q2", "select 'protocol'"),
            ask("rollback"),
            run("q2"),
            ask("deallocate q2"),
            // Other names are free, and have the meaning that the protocol has given them.
            ask("begin"),
            ask(hidden),
            prepare("q3", "select 'protocol' as a"),
            run("q3"),
            both("q4"),
            ask("execute q3"),
            vec![close("q4"), sync()],
            both("q4"),
            [vec![close("q4")], both("q4")].concat(),
            vec![close("q4"), sync()],
            run("q4"),
            ask("rollback"),
            run("q3"),
            run("q2"),
            prepare("q3", "select 'again'"),
            both("q4"),
            ask("execute q3"),
        ]);
    }
}

/// PostgreSQL uses 63 bytes of a name, in SQL as in the protocol.
pub(crate) fn a_name_is_cut_as_postgresql_cuts_it(house: &House) {
    let stage = Stage::open(house, "names_cut");
    for (long, shorter) in [("n".repeat(70), "n".repeat(63)), (format!("{}\u{e9}x", "n".repeat(62)), "n".repeat(62))] {
        stage.compare(&[
            prepare(&long, "select 'long'"),
            ask(&format!("execute \"{long}\"")),
            run(&long),
            vec![close(&long), sync()],
            ask(&format!("execute \"{long}\"")),
            prepare(&long, "select 'again'"),
            ask(&format!("deallocate \"{shorter}\"")),
            run(&long),
            vec![close(&long), sync()],
            ask(&format!("prepare \"{long}\" as select 'by SQL'")),
            ask(&format!("execute \"{shorter}\"")),
            run(&long),
            vec![close(&long), sync()],
            run(&long),
            [vec![parse("", &format!("execute \"{long}\""))], run(""), vec![close(&long), sync()]].concat(),
        ]);
    }
}

/// Errors name what the client has named, and come in the order of PostgreSQL's own checks.
pub(crate) fn errors_about_names_are_those_of_postgresql(house: &House) {
    let stage = Stage::open(house, "names_errors");
    let bytes = |kind: u8, name: &[u8], rest: &[u8]| frame(kind, &[name, b"\0", rest].concat());
    stage.compare(&[
        prepare("a", "select $1::text"),
        run("a"),
        vec![bind("", "a", &["1", "2"]), sync()],
        vec![frame(b'H', b"x"), sync()],
        vec![parse("b", "select 1"), frame(b'H', b"x"), execute("", 0), sync()],
        vec![bytes(b'P', b"\xff", b"select 1\0\0\0"), sync()],
        vec![bytes(b'D', b"S\xff", b"")[..].to_vec(), sync()],
        vec![bytes(b'C', b"S\xff", b"")[..].to_vec(), sync()],
        vec![frame(b'B', b"\0\xff\0\0\0\0\0\0\0"), sync()],
        vec![frame(b'B', b"\xff\0a\0\0\0\0\0\0\0"), sync()],
        // In a failed transaction.
        ask("begin"),
        ask("select 1/0"),
        prepare("a", "select 2"),
        prepare("new", "select 2"),
        vec![close("a"), parse("a", "select 2"), sync()],
        run("a"),
        run("new"),
        vec![parse("a", "rollback"), sync()],
        ask("rollback"),
        run("a"),
        prepare("a", "select $1::text"),
        // The failure is not known yet.
        [
            ask("begin"),
            ask("select 1/0"),
            prepare("a", "select 2"),
            prepare("new", "select 2"),
            run("a"),
            ask("rollback"),
        ]
        .concat(),
        [ask("begin"), ask("select 1/0"), vec![close("a")], prepare("a", "select 2"), ask("rollback")].concat(),
        // Previously what the server was sent for the name of a text failed first.
        prepare("a", "select 3"),
        ask("begin"),
        vec![execute("", 0), sync(), parse("", "select 1; deallocate a"), sync(), parse("", "deallocate a"), sync()],
        ask("rollback"),
        ask("begin"),
        vec![execute("", 0), sync(), parse("", "execute a; select 1"), sync(), parse("", "execute a"), sync()],
        ask("rollback"),
        ask("begin"),
        vec![execute("", 0), sync(), parse("", "prepare a as selec"), sync()],
        ask("rollback"),
        run("a"),
        // Names of SQL.
        ask("prepare b as select 'by SQL'"),
        vec![parse("b", "select 'protocol'"), close("b"), bind("", "b", &[]), sync()],
        run("b"),
        ask("execute b"),
        vec![parse("c", "nonsense"), close("c"), parse("c", "nonsense"), sync()],
        run("c"),
    ]);
}

/// Regression: a client whose EXECUTE had named a statement by more than 63 bytes was closed when it sent the end of a COPY
/// that there was not with its next Query: our own message before the Query was taken for one that may begin a COPY.
pub(crate) fn a_query_behind_the_end_of_no_copy_is_answered(house: &House) {
    let pooler = house.pooler("no_copy", &["pool_mode = transaction", "default_pool_size = 1"]);
    let name = "n".repeat(64);
    for (kind, body) in [(b'd', &b"nobody's"[..]), (b'c', b""), (b'f', b"why\0")] {
        let mut client = pooler.client("u", "no_copy");
        client.peer.send(&[parse(&name, "select 'given'"), sync()].concat());
        assert!(client.answer().errors.is_empty());
        assert_eq!(client.value(&format!("execute {name}")), "given");
        client.peer.send(&[frame(kind, body), query("select 'after'")].concat());
        assert_eq!(client.answer().value(), "after");
    }
}
