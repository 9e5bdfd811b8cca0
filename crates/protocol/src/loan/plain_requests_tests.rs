//! Compares the plain way of a Query with the general one.

use std::rc::Rc;

use proptest::prelude::*;
use wire::write;

use super::super::plain_stage::{Stage, TEXTS};
use super::*;
use crate::prepared::UnnamedReading;
use crate::state::{Kind, Overrides, PinRules, Policy, Statement, Unseen};

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_say_the_same_and_leave_the_same(
        seed in any::<u64>(),
        texts in proptest::collection::vec((0..TEXTS.len(), 0..40_u8), 1..4),
    ) {
        let (mut one, mut other) = (Stage::new(seed), Stage::new(seed));
        for (text, luck) in texts {
            let mut bytes = Vec::new();
            write::query(&mut bytes, TEXTS[text]);
            match luck {
                0 => bytes.truncate(bytes.len() - 1),
                1 => bytes.insert(6.min(bytes.len()), 0),
                2 => write::query(&mut bytes, "select 3"),
                3 => bytes[0] = frontend::PARSE,
                _ => {}
            }
            prop_assert_eq!(one.hears(&bytes, true), other.hears(&bytes, false));
            let is_answered = luck % 2 == 0 && one.server.exchange.owed() == 1 && one.client.scanner.is_between();
            let status = if luck % 4 == 0 { b"T" } else { b"I" };
            for stage in [&mut one, &mut other] {
                if is_answered {
                    _ = stage.server.exchange.answered(wire::backend::READY_FOR_QUERY, status);
                }
            }
        }
    }
}

/// Messages of batches, and whether each is split in the other stage, so that it is looked at in two parts.
fn messages(picks: &[(u8, bool)]) -> Vec<(Vec<u8>, bool)> {
    let message = |pick: u8| -> Vec<u8> {
        let mut out = Vec::new();
        match pick {
            0..=5 => write::parse(&mut out, b"", TEXTS[usize::from(pick)], std::iter::empty()),
            6..=9 => write::message(&mut out, frontend::BIND, |out| out.extend_from_slice(&[0; 8])),
            10..=13 => write::message(&mut out, frontend::DESCRIBE, |out| out.extend_from_slice(b"P\0")),
            14 => write::message(&mut out, frontend::DESCRIBE, |out| out.extend_from_slice(b"S\0")),
            15 => write::parse(&mut out, b"a", "select 1", std::iter::empty()),
            16..=20 => write::message(&mut out, frontend::EXECUTE, |out| out.extend_from_slice(&[0; 5])),
            21 => write::query(&mut out, "select 1"),
            22 => write::bare(&mut out, frontend::FLUSH),
            _ => write::bare(&mut out, frontend::SYNC),
        }
        out
    };
    let is_plain = |pick: u8| matches!(pick, 10..=13 | 16..=20 | 23..);
    picks.iter().map(|(pick, is_split)| (message(*pick), *is_split && is_plain(*pick))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A message that comes in two parts passes all stages.
    #[test]
    fn what_ends_a_batch_is_counted_as_if_every_stage_had_seen_it(
        seed in any::<u64>(),
        picks in proptest::collection::vec((0..28_u8, any::<bool>()), 1..12),
    ) {
        let messages = messages(&picks);
        let whole: Vec<u8> = messages.iter().flat_map(|(message, _)| message.clone()).collect();
        let (mut one, mut other) = (Stage::new(seed), Stage::new(seed));
        let seen = one.sends(&[&whole]);
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        let mut from = 0;
        for (message, is_split) in &messages {
            if *is_split {
                parts.push(&whole[from..at + 1]);
                from = at + 1;
            }
            at += message.len();
        }
        parts.push(&whole[from..]);
        prop_assert_eq!(seen, other.sends(&parts));
    }
}

/// Each thing for which a Query is looked at.
#[test]
fn what_is_remembered_of_a_client_is_left_to_the_general_way() {
    type Make = fn(&mut Stage);
    let unusual: [(&str, Make); 13] = [
        ("effects", |stage| _ = stage.client.session_effects.insert(Box::default())),
        ("names", |stage| _ = stage.client.names.insert(Box::default())),
        ("something to be refused", |stage| {
            let policies = [Policy::Reject; Kind::ALL.len()];
            let rules = PinRules { policies, servers_max: None, age_max: None, unseen: Unseen::Ignore };
            stage.refusals = Some(Rc::new(rules));
        }),
        ("a statement prepared by SQL", |stage| {
            let mut overrides = Overrides::default();
            overrides
                .statements_mut()
                .insert("p", Statement { sql: "prepare p as select 1".into(), search_path: None });
            stage.client.overrides = Some(Rc::new(overrides));
        }),
        ("an unnamed statement", |stage| {
            let reading = UnnamedReading { vars: None, class: None, statement: None };
            let Stage { client, server, statement_registry, .. } = stage;
            client.unnamed.prepares(None, reading, &server.exchange, &client.account, statement_registry);
        }),
        ("subscriptions", |stage| _ = stage.client.subscriptions.insert(Box::default())),
        ("a message that has begun", |stage| {
            _ = stage.client.scanner.next(b"Q\0\0\0\xff", 0, u32::MAX);
        }),
        ("a message that is collected", |stage| stage.client.fate = RequestFate::Collect),
        ("something owed", |stage| _ = stage.server.exchange.asked(frontend::QUERY)),
        ("a request that may be sent again", |stage| stage.server.repeatable.keep(b"Q\0\0\0\x05\0")),
        ("no queries allowed", |stage| stage.refuses_queries = true),
        ("sequences that are asked for", |stage| stage.function_catalog.note_asker(0)),
        ("functions that are not known", |stage| stage.is_trusting = false),
    ];
    let mut query = Vec::new();
    write::query(&mut query, "select 1, f()");
    for (what, make) in unusual {
        let mut stage = Stage::plain();
        assert!(stage.takes_plainly(&query), "{what}");
        let mut stage = Stage::plain();
        make(&mut stage);
        assert!(!stage.takes_plainly(&query), "{what}");
    }
}

#[test]
fn a_text_that_leaves_something_is_left_to_the_general_way() {
    for text in [
        "select set_config('work_mem', '1MB', true)",
        "select currval('s')",
        "execute a",
        "deallocate a",
        "prepare a as select 1",
        "listen channel",
        "create temp table t (a int)",
    ] {
        let (mut stage, mut bytes) = (Stage::plain(), Vec::new());
        write::query(&mut bytes, text);
        assert!(!stage.takes_plainly(&bytes), "{text}");
    }
}

/// What a client is told of its statement is noted.
#[test]
fn the_portal_of_a_named_statement_is_described_by_the_general_way() {
    let mut stage = Stage::plain();
    let mut bytes = Vec::new();
    write::parse(&mut bytes, b"a", "select 1", std::iter::empty());
    write::message(&mut bytes, frontend::BIND, |out| out.extend_from_slice(b"\0a\0\0\0\0\0\0\0"));
    write::message(&mut bytes, frontend::DESCRIBE, |out| out.extend_from_slice(b"P\0"));
    let said = stage.hears(&bytes, true);
    assert!(said.contains("Step(ClientDescribe)"), "{said}");
}

#[test]
fn a_plain_query_is_taken_at_once() {
    let mut stage = Stage::plain();
    let mut bytes = Vec::new();
    write::query(&mut bytes, "select 1");
    let said = stage.hears(&bytes, true);
    assert!(said.contains("begun: 1") && said.contains("is_alone: true"), "{said}");
    assert_eq!(text_of_query(&bytes, 1 << 20), Some(&b"select 1"[..]));
    assert_eq!(text_of_query(&bytes, 8), None);
    assert_eq!(text_of_query(&bytes[..bytes.len() - 1], 1 << 20), None);
    assert_eq!(text_of_query(b"Q\0\0\0\x05x", 1 << 20), None, "its text has no end");
    assert_eq!(text_of_query(b"Q\0\0\0\x08a\0b\0", 1 << 20), None, "there is something behind its text");
}
