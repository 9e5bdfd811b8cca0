//! Compares the plain way of a batch with the general one.

use std::rc::Rc;

use proptest::prelude::*;
use wire::write;

use super::super::plain_stage::{Stage, TEXTS};
use super::*;
use crate::state::{Kind, PinRules, Policy, Unseen};

/// A batch that runs one statement: prepared without a name by the batch itself, or earlier under this name.
fn batch(text: Option<&str>, name: &str, is_described: bool) -> Vec<u8> {
    batch_with(text, name, is_described, "1")
}

/// Such a batch with this value.
fn batch_with(text: Option<&str>, name: &str, is_described: bool, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(text) = text {
        write::parse(&mut out, b"", text, std::iter::empty());
    }
    write::bind(&mut out, name, [Some(value)].into_iter());
    if is_described {
        write::message(&mut out, frontend::DESCRIBE, |out| out.extend_from_slice(b"P\0"));
    }
    write::execute(&mut out);
    write::bare(&mut out, frontend::SYNC);
    out
}

/// A batch whose Parse gives this name, and whose next message, a Bind without names in a plain batch, is of this kind.
fn batch_with_parse(name: &[u8], kind: u8) -> Vec<u8> {
    let mut out = Vec::new();
    write::parse(&mut out, name, "select 1", std::iter::empty());
    write::message(&mut out, kind, |out| out.extend_from_slice(&[0; 8]));
    write::execute(&mut out);
    write::bare(&mut out, frontend::SYNC);
    out
}

/// What a client sends at once, a plain batch in most cases.
fn request(pick: u8, text: usize) -> Vec<u8> {
    let (text, mut out) = (TEXTS[text], Vec::new());
    match pick {
        // Some texts come often.
        0 | 1 => return batch(Some(TEXTS[1 + usize::from(pick)]), "", true),
        2 | 3 => return batch(Some(text), "", pick == 2),
        // More than is copied behind another name.
        4 => return batch_with(None, "a", true, &"1".repeat(COPIED_BYTES_MAX + text.len())),
        5..=11 => return batch(None, if pick < 6 { "b" } else { "a" }, pick != 7),
        12..=17 => {
            write::parse(&mut out, if pick == 12 { b"b" } else { b"a" }, text, std::iter::empty());
            if pick < 17 {
                let name: &[u8] = if pick == 12 { b"Sb\0" } else { b"Sa\0" };
                write::message(&mut out, frontend::DESCRIBE, |out| out.extend_from_slice(name));
            }
        }
        18 => write::message(&mut out, frontend::CLOSE, |out| out.extend_from_slice(b"Sa\0")),
        19 => write::message(&mut out, frontend::CLOSE, |out| out.extend_from_slice(b"S\0")),
        20 => return batch(None, "", true),
        21 => return batch(Some(text), "a", true),
        22 => {
            write::query(&mut out, text);
            return out;
        }
        _ => out = [batch(Some(text), "", true), batch(None, "a", false)].concat(),
    }
    write::bare(&mut out, frontend::SYNC);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_say_the_same_of_batches_and_leave_the_same(
        seed in any::<u64>(),
        requests in proptest::collection::vec((0..24_u8, 0..TEXTS.len(), 0..60_u8, 0..20_usize, 0..12_u8), 1..12),
    ) {
        // Most sessions are those in which nothing is unusual.
        let new = || if seed % 4 == 0 { Stage::new(seed) } else { Stage::plain() };
        let (mut one, mut other) = (new(), new());
        for (pick, text, luck, fails, end) in requests {
            let mut bytes = request(pick, text);
            match luck {
                0 => bytes.truncate(bytes.len() - 1),
                1 => bytes.insert(6.min(bytes.len()), 0),
                2 => bytes.insert(bytes.len() - 5, b'H'),
                3 => bytes[4] += 1,
                4 => bytes.truncate(bytes.len() - 5),
                _ => {}
            }
            // The setting may be another one after a reload.
            (one.reuses_unnamed, other.reuses_unnamed) = (end > 8, end > 8);
            prop_assert_eq!(one.hears(&bytes, true), other.hears(&bytes, false));
            let status = match end {
                0 => TxStatus::Failed,
                1 => TxStatus::Open,
                _ => TxStatus::Idle,
            };
            if luck % 16 == 5 {
                continue;
            }
            let fails = if luck % 4 == 0 { fails } else { usize::MAX };
            let status = (status, if end == 3 { b'y' } else { b'x' });
            prop_assert_eq!(one.is_answered(fails, status, end == 2), other.is_answered(fails, status, end == 2));
            if end == 4 {
                one.server.server_statements.doubt_this_loan();
                other.server.server_statements.doubt_this_loan();
            }
        }
    }
}

/// A client that has prepared and described the statement `a`.
fn has_described(mut stage: Stage) -> Stage {
    stage.hears(&request(13, 1), false);
    stage.is_answered(usize::MAX, (TxStatus::Idle, b'x'), false);
    stage
}

#[test]
fn a_batch_of_one_statement_is_taken_at_once() {
    for (bytes, is_plain) in [
        (batch(Some("select 1"), "", true), true),
        (batch(Some("insert into t values ($1)"), "", false), true),
        (batch(None, "a", true), true),
        (batch(None, "a", false), true),
        (batch_with(None, "a", true, &"1".repeat(COPIED_BYTES_MAX)), true),
        (batch(None, "b", true), false),
        (batch(None, "", true), false),
        (batch(Some("select 1"), "a", true), false),
        (batch(Some("set work_mem = '1MB'"), "", true), false),
        (batch(Some("select currval('s')"), "", true), false),
        ([batch(None, "a", true), batch(None, "a", true)].concat(), false),
        // It is longer than a message may be.
        (batch(Some(&format!("select '{}'", "x".repeat(1 << 20))), "", true), false),
        (batch_with_parse(b"a", frontend::BIND), false),
        (batch_with_parse(b"", frontend::CLOSE), false),
    ] {
        let mut stage = has_described(Stage::plain());
        assert_eq!(stage.takes_plainly(&bytes), is_plain, "{}", bytes.escape_ascii());
    }
}

/// Each thing for which a batch is looked at.
#[test]
fn a_batch_is_left_to_the_general_way_where_more_is_to_be_done_for_it() {
    type Make = fn(&mut Stage);
    let unusual: [(&str, Make); 13] = [
        ("effects", |stage| _ = stage.client.session_effects.insert(Box::default())),
        ("subscriptions", |stage| _ = stage.client.subscriptions.insert(Box::default())),
        ("a message that has begun", |stage| _ = stage.client.scanner.next(b"Q\0\0\0\xff", 0, u32::MAX)),
        ("a message that is collected", |stage| stage.client.fate = RequestFate::Collect),
        ("something owed", |stage| _ = stage.server.exchange.asked(frontend::QUERY)),
        ("a request that may be sent again", |stage| stage.server.repeatable.keep(b"Q\0\0\0\x05\0")),
        ("no state that follows", |stage| stage.follows = false),
        ("no statements that follow", |stage| stage.statements_max = 0),
        ("a statement that drops names", |stage| {
            stage.client.names.get_or_insert_default().binds_drop();
        }),
        ("a statement without a name that was sent under one", |stage| {
            stage.reuses_unnamed = true;
            for _ in 0..2 {
                stage.hears(&batch(Some("select 2"), "", true), false);
                stage.is_answered(usize::MAX, (TxStatus::Idle, b'x'), false);
            }
            stage.reuses_unnamed = false;
        }),
        ("something to be refused", |stage| {
            let policies = [Policy::Reject; Kind::ALL.len()];
            let rules = PinRules { policies, servers_max: None, age_max: None, unseen: Unseen::Ignore };
            stage.refusals = Some(Rc::new(rules));
        }),
        ("a server without statements", |stage| std::mem::swap(&mut stage.server, &mut stage.other)),
        ("a statement that the server may have dropped", |stage| stage.server.server_statements.drop_all(None)),
    ];
    for (place, (what, make)) in unusual.into_iter().enumerate() {
        let mut stage = has_described(Stage::plain());
        make(&mut stage);
        assert!(!stage.takes_plainly(&batch(None, "a", true)), "{what}");
        // The last two concern statements that the batch does not prepare itself.
        if place < 11 {
            assert!(!stage.takes_plainly(&batch(Some("select 1"), "", true)), "{what}");
        }
    }
}
