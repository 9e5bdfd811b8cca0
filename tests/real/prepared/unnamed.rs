//! The unnamed statement is the one that PostgreSQL would have after what failed and what was skipped.

use tests::message::{bind, describe, execute, frame, parse, query, sync};

use super::names::{Said, Stage, told};
use crate::house::House;

fn use_it() -> Said {
    vec![bind("", "", &[]), execute("", 0)]
}

fn close() -> Vec<u8> {
    close_of("")
}

fn close_of(name: &str) -> Vec<u8> {
    frame(b'C', &[b"S", name.as_bytes(), b"\0"].concat())
}

/// A Parse and a Query that are no valid UTF-8.
fn torn_letter() -> Vec<u8> {
    frame(b'P', b"\0select '\xc3'\0\0\0")
}

fn query_of_torn_letter() -> Vec<u8> {
    frame(b'Q', b"select '\xc3'\0")
}

fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

/// Regression: a statement that PostgreSQL had skipped was executed by the next Bind, an INSERT in the place of an error; and a
/// statement that was bound in its own batch and in a later one did not exist.
pub(crate) fn the_statement_in_force_is_that_of_postgresql(house: &House) {
    let stage = Stage::with_servers(house, "unnamed_in_force", "default_pool_size = 2");
    house.postgres.client("unnamed_in_force").run("create table s (a int); grant all on s to public");
    let insert = || parse("", "insert into s values (1)");
    let failing = || [vec![parse("", "select 1/0")], use_it()].concat();
    let ended = |messages: &[Said]| [messages.concat(), vec![sync()]].concat();
    let one = || parse("", "select 'one'");
    let programs: Vec<Vec<Said>> = vec![
        // The INSERT is skipped; the statement before it is in force and fails again.
        vec![ended(&[failing(), vec![insert()]]), ended(&[use_it()]), ended(&[use_it()])],
        vec![ended(&[vec![one()]]), ended(&[vec![describe(b'S', "nope"), insert()]]), ended(&[use_it()])],
        vec![ended(&[failing(), vec![insert()], use_it()]), ended(&[vec![describe(b'S', "")], use_it()])],
        // A Parse that fails itself destroys the statement before it; one that is skipped does not.
        vec![ended(&[vec![one()]]), ended(&[vec![parse("", "selec"), insert()]]), ended(&[use_it()])],
        // A skipped Close; a Query that is read.
        vec![ended(&[vec![one(), describe(b'S', "nope"), close()]]), ended(&[use_it()])],
        vec![ended(&[vec![one()]]), vec![query("select 'destroys it'")], ended(&[use_it()])],
        // A Parse that was answered before the error survives.
        vec![ended(&[vec![one(), describe(b'S', "nope"), insert()]]), ended(&[use_it()])],
        // What cannot be converted destroys nothing; a literal that cannot be is found later.
        vec![ended(&[vec![one()]]), ended(&[vec![torn_letter()], use_it()]), ended(&[use_it()])],
        vec![ended(&[vec![one()]]), vec![query_of_torn_letter()], ended(&[use_it()])],
        vec![ended(&[vec![one(), torn_letter()]]), ended(&[use_it()])],
        vec![ended(&[vec![one()]]), ended(&[vec![parse("", r"select E'\xff'")]]), ended(&[use_it()])],
        // Bound in its own batch and in later ones, with other clients' statements in between.
        vec![ended(&[vec![one()], use_it()]), ended(&[use_it()]), ended(&[use_it()])],
        // In a transaction that fails and ends.
        vec![
            vec![query("begin")],
            ended(&[vec![one()], use_it()]),
            ended(&[vec![describe(b'S', "nope"), insert()]]),
            vec![parse("roll", "rollback"), bind("", "roll", &[]), execute("", 0), frame(b'C', b"Sroll\0"), sync()],
            ended(&[use_it()]),
        ],
    ];
    for (at, program) in programs.iter().enumerate() {
        for is_pipelined in [false, true] {
            if is_pipelined && program.contains(&vec![query_of_torn_letter()]) {
                // What is sent behind a Query is not known to belong to the statement before it (decision 0007).
                continue;
            }
            let (mut pooled, mut direct, mut other) = (stage.pooled(), stage.direct(), stage.pooled());
            told(&mut other, &ended(&[vec![parse("", "select 'not yours'")], use_it()]));
            let (ours, theirs) = if is_pipelined {
                (told(&mut pooled, &program.concat()), told(&mut direct, &program.concat()))
            } else {
                let mut answers = (Vec::new(), Vec::new());
                for batch in program {
                    answers.0.extend(told(&mut pooled, batch));
                    answers.1.extend(told(&mut direct, batch));
                    told(&mut other, &ended(&[vec![parse("", "select 'not yours'")], use_it()]));
                }
                answers
            };
            assert_eq!(ours, theirs, "program {at}, pipelined: {is_pipelined}");
        }
    }
    assert_eq!(stage.direct().value("select count(*) from s"), "0");
}

/// Regression: the statement was sent again although the server has it under a name, which a failed transaction refuses.
pub(crate) fn one_that_is_kept_under_a_name_comes_back_if_the_next_is_skipped(house: &House) {
    let stage = Stage::with_servers(house, "unnamed_kept", "reuse_unnamed_statements = 1");
    let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
    let one = || parse("", "copy (select 1) to stdout");
    let two = || parse("", "select 'two'");
    let describes = || vec![describe(b'S', ""), sync()];
    for program in [
        // From the second time on they are kept under names.
        vec![one(), sync(), one(), sync(), two(), sync(), two(), sync()],
        vec![query("begin")],
        vec![one(), execute("nope", 0), two(), sync()],
        describes(),
        vec![query("rollback"), query("begin")],
        vec![one(), execute("nope", 0), parse("", "select 'never before'"), two(), sync()],
        describes(),
        vec![query("rollback"), query("begin")],
        // A Parse that fails itself leaves none.
        vec![one(), parse("", "select nothing"), sync()],
        describes(),
        vec![query("rollback")],
    ] {
        assert_eq!(told(&mut pooled, &program), told(&mut direct, &program));
    }
}

/// Regression: whoever prepared a text that a server had already was not sent the warning about it.
pub(crate) fn each_client_is_warned_of_its_own_text(house: &House) {
    for (database, settings) in
        [("unnamed_warned", "default_pool_size = 1"), ("unnamed_warned_again", "reuse_unnamed_statements = 1")]
    {
        let stage = Stage::with_servers(house, database, settings);
        let clients = || [stage.pooled(), stage.direct()];
        for name in ["", "named"] {
            for mut pair in [clients(), clients(), clients()] {
                let twice = || parse(name, r"select 'c\\d'");
                let programs = [
                    vec![query("set standard_conforming_strings = off")],
                    vec![twice(), close_of(name), twice(), close_of(name), sync()],
                    vec![parse(name, r"select 'a\\b'"), bind("", name, &[]), execute("", 0), sync()],
                    vec![bind("", name, &[]), execute("", 0), sync()],
                ];
                for program in programs {
                    let answers = pair.each_mut().map(|client| {
                        client.peer.send(&program.concat());
                        client.answer()
                    });
                    let [ours, theirs] = answers.map(|answer| (answer.rows, answer.notices, answer.errors));
                    assert_eq!(ours, theirs, "{settings} {name:?}");
                }
            }
        }
    }
}

/// The client has changed a parameter since; it uses no Query, which would destroy the statement.
pub(crate) fn a_literal_of_it_means_what_it_meant_when_it_was_given(house: &House) {
    let stage = Stage::with_servers(house, "unnamed_literal", "default_pool_size = 1");
    let (mut pooled, mut direct, mut other) = (stage.pooled(), stage.direct(), stage.pooled());
    let ended = |messages: Said| [messages, vec![sync()]].concat();
    let run = |name| ended(vec![bind("", name, &[]), execute("", 0)]);
    let date = || parse("", "select date '1/2/2020'");
    for batch in [
        ended(vec![parse("dmy", "set datestyle = 'German, dmy'"), parse("mdy", "set datestyle = 'German, mdy'")]),
        run("dmy"),
        ended([vec![date()], use_it()].concat()),
        run("mdy"),
        run(""),
        ended([vec![date()], use_it()].concat()),
    ] {
        assert_eq!(told(&mut pooled, &batch), told(&mut direct, &batch));
        told(&mut other, &ended([vec![parse("", "select 'not yours'")], use_it()].concat()));
    }
}

/// Regression: the abort takes back a parameter, which makes the statements of the transaction doubtful; a failed
/// transaction refused to prepare them again.
pub(crate) fn a_failed_transaction_keeps_what_it_has_prepared(house: &House) {
    let described = |name: &str| vec![describe(b'S', name), sync()];
    let batches = [
        vec![query("begin")],
        vec![query("set datestyle = 'German, dmy'")],
        vec![parse("undo", "rollback"), parse("named", "insert into t values (1)"), sync()],
        vec![parse("", "insert into t values ($1)"), execute("nope", 0), sync()],
        described(""),
        described("named"),
        described("undo"),
        vec![bind("", "named", &[]), sync()],
        vec![bind("", "undo", &[]), execute("", 0), sync()],
        described(""),
        described("named"),
        // The unnamed statement that the server has under a name comes back with another that is skipped.
        vec![query("begin")],
        vec![query("set standard_conforming_strings = 'on'")],
        vec![parse("", "insert into t values ($1)"), execute("", 0), parse("", "select 'skipped'"), sync()],
        described(""),
        vec![query("rollback")],
    ];
    for (database, settings) in [
        ("unnamed_taken_back", "default_pool_size = 1"),
        ("unnamed_taken_back_named", "reuse_unnamed_statements = 1\ndefault_pool_size = 1"),
    ] {
        let stage = Stage::with_servers(house, database, settings);
        let (mut pooled, mut direct) = (stage.pooled(), stage.direct());
        // The unnamed statement has come before.
        for _ in 0..2 {
            let insert = vec![parse("", "insert into t values ($1)"), sync()];
            assert_eq!(told(&mut pooled, &insert), told(&mut direct, &insert));
        }
        for (step, batch) in batches.iter().enumerate() {
            assert_eq!(told(&mut pooled, batch), told(&mut direct, batch), "{settings}, step {step}");
        }
    }
}

/// The error is read before the rest of its batch is sent.
pub(crate) fn what_is_sent_while_the_server_skips_changes_no_statement(house: &House) {
    let stage = Stage::with_servers(house, "unnamed_skipping", "default_pool_size = 1");
    for mut client in [stage.pooled(), stage.direct()] {
        client.peer.send(&[parse("", "select 1/0"), use_it().concat(), flush()].concat());
        assert_eq!(client.peer.frame().expect("an answer").tag, b'1');
        assert_eq!(client.peer.frame().expect("an answer").tag, b'E');
        client.peer.send(&[parse("", "select 'skipped'"), query("select 'skipped, too'"), sync()].concat());
        assert!(client.answer().rows.is_empty());
        client.peer.send(&[use_it().concat(), sync()].concat());
        assert_eq!(client.answer().error().code, "22012");
    }
}
