//! Each rule: what makes it fire, and that it does not fire without. The healthy server of `trial` is the clean case of all of them.

use serde_json::json;

use super::RULES;
use super::trial::{Trial, healthy, rows};
use crate::facts::waits;
use crate::findings::Severity;

/// A rule, a change to what is healthy, and what the rule says then.
type Firing = (&'static str, fn(&mut Trial), &'static str);

/// Adds a client session.
fn session(t: &mut Trial, session: serde_json::Value) {
    t.server().activity.as_mut().expect("activity").extend(rows(json!([session])));
}

fn after(t: &mut Trial) -> &mut crate::facts::Counters {
    &mut t.server().after.as_mut().expect("a reading").1
}

/// Changes the counters of the only database at the second reading.
fn counted(t: &mut Trial, change: fn(&mut crate::facts::DatabaseCounters)) {
    change(&mut after(t).databases.as_mut().expect("databases")[0]);
}

fn standby(t: &mut Trial) {
    t.server().about.as_mut().expect("about").is_in_recovery = true;
}

fn replicated(t: &mut Trial) {
    t.server().replication =
        Ok(rows(json!([{ "pid": 200, "application": "sub", "state": "streaming", "sync_state": "async" }])));
}

const FIRING: &[Firing] = &[
    ("D01", |t| t.set("max_connections", "641"), "W server max_connections 641 > 10 x 64 processors"),
    ("D01", |t| t.seen.waits = Ok(waits(100, &[("active", "", "", 257)])), "W server 257 sessions were running"),
    (
        "D02",
        |t| counted(t, |one| one.sessions = Some(2_100.0)),
        "W server 2,050 sessions for 19,500 transactions in 20 s = 0.11",
    ),
    (
        "D03",
        |t| session(t, json!({ "pid": 7, "state": "idle in transaction", "state_age": 61, "role": "web" })),
        "W server 1 session, the longest for 61 s: pid 7 (user web)",
    ),
    (
        "D03",
        |t| t.seen.waits = Ok(waits(500, &[("active", "", "", 9), ("idle in transaction", "Client", "ClientRead", 1)])),
        "W server 10 % of 5,000 samples",
    ),
    ("D04", |t| session(t, json!({ "pid": 7, "xmin_age": 10_001 })), "W server 10,001 transactions: pid 7"),
    (
        "D04",
        |t| t.server().slots = Ok(rows(json!([{ "slot_name": "s", "active": true, "xmin_age": 20_000 }]))),
        "the slot s",
    ),
    (
        "D04",
        |t| t.server().prepared = Ok(rows(json!([{ "gid": "g", "database": "app", "age": 5, "xid_age": 20_000 }]))),
        "the prepared transaction \"g\"",
    ),
    ("D05", |t| t.set("client_connection_check_interval", "0"), "I server client_connection_check_interval = 0"),
    ("D06", |t| t.set("statement_timeout", "0"), "W server statement_timeout, lock_timeout, idle_in"),
    ("D07", |t| t.set("idle_session_timeout", "600000"), "W server idle_session_timeout = 10 min"),
    ("D08", |t| t.set("huge_pages", "off"), "W host 250 connections x 256 GB / 512 = 125 GB, 13 % of 931 GB"),
    ("D09", |t| t.host().transparent = Ok("always".to_owned()), "I host transparent_hugepage/enabled = always"),
    (
        "D10",
        |t| t.host().memory.as_mut().expect("memory").extend([("HugePages_Total".to_owned(), 131_071.0)]),
        "W host vm.nr_hugepages = 131,071, and 256 GB of shared memory need 131,072 pages of 2 MB",
    ),
    ("D10", |t| t.set("huge_page_size", "1048576"), "needs the number of huge pages of 1 GB"),
    (
        "D11",
        |t| t.host().memory.as_mut().expect("memory").extend([("PageTables".to_owned(), 2.5e10)]),
        "W host PageTables 23 GB = 2.5 % of 931 GB",
    ),
    (
        "D11",
        |t| t.host().processes.as_mut().expect("processes").page_tables = 5e10,
        "W host page tables of the server 47 GB = 18 % of shared_buffers",
    ),
    ("D12", |t| t.host().overcommit = Ok(0.0), "W host vm.overcommit_memory = 0, oom_score_adj of the postmaster = 0"),
    (
        "D12",
        |t| t.host().processes.as_mut().expect("processes").pss = Ok((10, 1.1e12)),
        "W host PSS of 10 processes 1 TB + 1 active x 64 MB",
    ),
    (
        "D13",
        |t| t.set("work_mem", "4194304"),
        "W server 256 GB + 250 x (0 B page table + 5 MB + 4 GB work_mem) = 1.2 TB",
    ),
    (
        "D14",
        |t| counted(t, |one| one.temp_bytes = 1e9),
        "I server 954 MB of temporary files were written; work_mem = 64 MB, and 739 MB fit",
    ),
    ("D14", |t| t.set("work_mem", "3500000"), "I server work_mem = 3.3 GB"),
    ("D15", |t| t.set("shared_buffers", "16384"), "I server shared_buffers = 128 MB, 0.0 % of 931 GB"),
    (
        "D16",
        |t| counted(t, |one| one.blks_read = 100_100.0),
        "I server 100,000 of 1,100,000 pages were read: hit ratio 91 %",
    ),
    (
        "D17",
        |t| t.seen.waits = Ok(waits(100, &[("active", "Client", "ClientWrite", 1), ("active", "", "", 3)])),
        "W server ClientWrite in 100 of 400 active samples = 25 %",
    ),
    (
        "D18",
        |t| t.seen.waits = Ok(waits(100, &[("idle in transaction", "Client", "ClientRead", 3), ("active", "", "", 1)])),
        "W server 300 of 400 samples of sessions in use = 75 %",
    ),
    (
        "D19",
        |t| t.seen.waits = Ok(waits(100, &[("active", "LWLock", "LockManager", 1), ("active", "", "", 9)])),
        "W server 100 of 1,000 active samples = 10 %",
    ),
    (
        "D20",
        |t| t.pooler().after.as_mut().expect("a reading").1.phases.as_mut().expect("phases").waiting = 1e3 + 1.0,
        "W pooler clients waited 20 % of their time for a server; 1 of 64 processors",
    ),
    (
        "D21",
        |t| t.seen.history.as_mut().expect("a history").peaks.values_mut().for_each(|peak| *peak = 79.0),
        "W pooler pool app/web: at most 79 of 160 servers were at work at 1,152 readings in 8 days",
    ),
    (
        "D21",
        |t| t.seen.history.as_mut().expect("a history").seconds = 6.9 * 86_400.0,
        "needs a history of 7 days with a reading an hour (there are 1152 in 7 days, up to 10 min apart) (known: in use now: app 1 of 160)",
    ),
    (
        "D22",
        |t| t.set("max_connections", "400"),
        "I server max_connections 400 - 1 x 180 in pools - 1 direct - 3 reserved = 216 unused",
    ),
    (
        "D23",
        |t| session(t, json!({ "pid": 7, "kind": "client backend", "application": "cron", "address": "10.0.0.8" })),
        "W server 2 sessions, of which 1 may: pid 101 (psql, user web, database app), pid 7 (cron)",
    ),
    ("D24", |t| counted(t, |one| one.sessions = Some(250.0)), "W server 200 sessions in 20 s = 10 a second"),
    (
        "D25",
        |t| t.server().prepared = Ok(rows(json!([{ "gid": "g", "database": "app", "age": 3_601, "xid_age": 2 }]))),
        "I database app \"g\" was prepared 60 min ago",
    ),
    (
        "D25",
        |t| t.server().temporary = Ok(rows(json!([{ "pid": 100, "size": 2_097_152, "age": 7_300 }]))),
        "I database app pid 100 (rails, user web, database app) is idle, and keeps a cursor WITH HOLD of 2 MB for 2.0 h",
    ),
    (
        "D25",
        |t| {
            t.pooler().pins = Ok(rows(
                json!([{ "kind": "cursor", "database": "app", "client": "C-0x1", "server": "S-0x2", "age": "3601" }]),
            ))
        },
        "I database app client C-0x1 keeps server S-0x2 by a cursor WITH HOLD for 60 min",
    ),
    (
        "D26",
        |t| {
            t.server().advisory = Ok(rows(
                json!([{ "pid": 100, "database": "app", "key": "42", "mode": "ExclusiveLock", "state": "idle", "state_age": 90 }]),
            ))
        },
        "E database app lock (42) ExclusiveLock on the idle server S-0x1 of pool app/web, pid 100, which no client has, for 90 s",
    ),
    (
        "D27",
        |t| t.inside().repack = Ok(rows(json!([{ "name": "repack.log_1", "reason": "table" }]))),
        "W database app no pg_repack runs, and it left repack.log_1",
    ),
    (
        "D27",
        |t| {
            session(t, json!({ "pid": 7, "application": "pg_repack", "database": "app" }));
            session(t, json!({ "pid": 8, "database": "app", "transaction_age": 100 }));
        },
        "W database app pg_repack runs, and transactions older than 60 s: pid 8",
    ),
    (
        "D28",
        |t| t.server().secrets = Ok(rows(json!([{ "name": "old", "kind": "md5" }]))),
        "W server md5 secrets, of 1 role: old",
    ),
    (
        "D28",
        |t| {
            t.server().hba =
                Ok(rows(json!([{ "line": 9, "kind": "hostssl", "address": "10.0.0.0", "method": "trust" }])))
        },
        "W server lines of pg_hba.conf take logins by a weak method: 9 (hostssl 10.0.0.0 trust)",
    ),
    (
        "D28",
        |t| {
            t.server().hba =
                Ok(rows(json!([{ "line": 9, "kind": "host", "address": "all", "method": "scram-sha-256" }])))
        },
        "without TLS: 9",
    ),
    (
        "D29",
        |t| t.inside().lookups.as_mut().expect("functions")[0].is_public = true,
        "E database app lookup(name) (owner keeper): everybody may execute it",
    ),
    (
        "D29",
        |t| {
            let mut other = t.server().inside[0].clone();
            other.1.as_mut().expect("a database").lookups = Ok(Vec::new());
            other.0 = "template1".to_owned();
            t.server().inside.push(other);
        },
        "W server lookup(name) is in app, and not in template1",
    ),
    (
        "D30",
        |t| t.server().roles.as_mut().expect("roles")[0].limit = 10,
        "W server role web may have 10 connections, its pools 180",
    ),
    (
        "D30",
        |t| t.server().databases.as_mut().expect("databases")[0].limit = 179,
        "W server database app may have 179 connections, its pools 180",
    ),
    (
        "D31",
        |t| after(t).slots.as_mut().expect("slots")[0].spill_bytes = 1e9,
        "W server 954 MB spilled in 20 s, nothing streamed",
    ),
    (
        "D32",
        |t| t.server().slots = Ok(rows(json!([{ "slot_name": "s", "wal_status": "lost" }]))),
        "E server wal_status = lost",
    ),
    (
        "D32",
        |t| t.server().slots = Ok(rows(json!([{ "slot_name": "s", "retained": 2e11 }]))),
        "W server inactive, and keeps 186 GB of log, 20 % of the disk",
    ),
    (
        "D32",
        |t| {
            t.set("max_slot_wal_keep_size", "-1");
            t.server().slots = Ok(rows(json!([{ "slot_name": "s" }])));
        },
        "W server max_slot_wal_keep_size = -1, and these are inactive: s",
    ),
    (
        "D33",
        |t| {
            t.inside().unvacuumed = Ok(rows(
                json!([{ "name": "t", "number": 5_000, "limit": 250, "reason": "dead" }, { "name": "u", "reason": "never" }]),
            ))
        },
        "I database app t has 5,000 dead rows, and vacuum begins at 250",
    ),
    (
        "D33",
        |t| t.inside().unvacuumed = Ok(rows(json!([{ "name": "u", "reason": "never" }]))),
        "I database app never vacuumed: u",
    ),
    (
        "D34",
        |t| counted(t, |one| one.changed = 200_000.0),
        "I server 10,000 rows change a second; cost_limit 200 / 21 every 2 ms lets all workers together clean 4,762 pages",
    ),
    (
        "D35",
        |t| t.inside().indexes = Ok(rows(json!([{ "name": "i", "number": 2_097_152, "reason": "unused" }]))),
        "I database app 1 index (2 MB) never scanned in 10 days: i",
    ),
    (
        "D35",
        |t| t.inside().indexes = Ok(rows(json!([{ "name": "i", "reason": "invalid" }]))),
        "W database app invalid: i",
    ),
    ("D36", |t| t.inside().unkeyed = Ok(rows(json!([{ "name": "t" }]))), "I database app 1 table: t"),
    ("D37", |t| t.set("checkpoint_timeout", "300"), "I server checkpoint_timeout = 300 s"),
    ("D37", |t| t.set("checkpoint_completion_target", "0.5"), "I server checkpoint_completion_target = 0.5"),
    ("D37", |t| after(t).wal = Ok(3e9), "I server 1.9 GB of log in 20 s = 335 GB an hour; max_wal_size = 64 GB"),
    (
        "D37",
        |t| t.server().before.checkpoints.as_mut().expect("checkpoints").requested = 101.0,
        "I server 101 checkpoints were requested, 100 came by time",
    ),
    (
        "D38",
        |t| {
            t.set("jit", "on");
            t.pooler().after.as_mut().expect("a reading").1.phases.as_mut().expect("phases").first_byte = 100.0;
        },
        "I server jit = on; transactions take 5 ms on average",
    ),
    ("D39", |t| t.set("track_io_timing", "off"), "I server track_io_timing = off"),
    ("D39", |t| t.set("shared_preload_libraries", "auto_explain"), "I server pg_stat_statements is not"),
    (
        "D40",
        |t| t.server().about.as_mut().expect("about").version = 150_017,
        "W server PostgreSQL 15.18; 15.18 or a later one is out",
    ),
    ("D40", |t| t.server().about.as_mut().expect("about").now = 1.9e9, "W server PostgreSQL 15 has had no support for"),
    ("D40", |t| t.server().about.as_mut().expect("about").version = 120_010, "has no support any more"),
    ("D41", |t| t.server().about.as_mut().expect("about").uptime = 7_200.0, "W server it started 2.0 h ago"),
    ("D41", |t| t.server().histories = Ok(6.0), "W server 6 timeline histories"),
    (
        "D42",
        |t| {
            t.server().about.as_mut().expect("about").version = 130_023;
            (0..500).for_each(|pid| session(t, json!({ "pid": pid, "state": "idle" })));
        },
        "W server 502 idle sessions",
    ),
    ("D43", |t| t.set("synchronous_standby_names", "*"), "W server synchronous_standby_names = '*'; 0 standbys"),
    ("D44", |t| t.host().filesystem = Ok("nfs4".to_owned()), "I host the filesystem of data_directory is nfs4"),
    (
        "D44",
        |t| t.server().commits.as_mut().expect("commits").p99 = 0.0121,
        "I server 99 % of 200 commits took up to 11 ms on the server, half of them 1 ms",
    ),
    (
        "D44",
        |t| {
            let commits = t.server().commits.as_mut().expect("commits");
            (commits.count, commits.median, commits.p99) = (20, 0.5, 0.8);
        },
        "I server 99 % of 20 commits took up to 799 ms on the server, half of them 499 ms",
    ),
    ("D44", |t| t.server().commits.as_mut().expect("commits").count = 99, "needs more time: 99 commits were tried"),
    ("D44", |t| t.server().commits = Err("--commit-probe".to_owned()), "needs --commit-probe"),
    (
        "D45",
        |t| {
            standby(t);
            after(t).conflicts = Ok(3.0);
        },
        "W server 3 statements were cancelled in 20 s by replay",
    ),
    (
        "D45",
        |t| {
            standby(t);
            t.set("hot_standby_feedback", "off");
            session(t, json!({ "pid": 7, "transaction_age": 61 }));
        },
        "W server hot_standby_feedback = off, and transactions longer than 60 s: pid 7",
    ),
    (
        "D46",
        |t| {
            t.pooler().servers.as_mut().expect("servers")[0].insert("replication".to_owned(), "logical".to_owned());
            t.pooler().config.as_mut().expect("settings").insert("client_idle_timeout".to_owned(), "20".to_owned());
        },
        "W pooler client_idle_timeout = 20 s, wal_sender_timeout = 60 s",
    ),
    (
        "D47",
        |t| {
            replicated(t);
            t.host().usage.as_mut().expect("usage").insert(200, 0.5);
        },
        "W host pid 200 uses 50 % of a processor",
    ),
];

#[test]
fn each_rule_fires_on_what_it_is_about() {
    let mut wrong = Vec::new();
    for (rule, change, part) in FIRING {
        let mut trial = healthy();
        change(&mut trial);
        let said = trial.said(rule);
        if !said.iter().any(|text| text.contains(part)) {
            wrong.push(format!("{rule}: {part:?} is not in {said:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let untested = RULES.iter().map(|rule| rule.rule.id).filter(|id| !FIRING.iter().any(|(rule, ..)| rule == id));
    assert_eq!(untested.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn no_rule_fires_on_what_is_healthy() {
    let trial = healthy();
    let findings = trial.findings();
    assert_eq!(findings.found, []);
    assert_eq!(findings.unevaluated, []);
    assert_eq!(findings.good.len(), RULES.len());
    // Neither on what looks alike.
    let mut trial = healthy();
    replicated(&mut trial);
    standby(&mut trial);
    trial.server().advisory =
        Ok(rows(json!([{ "pid": 101, "key": "42", "state": "idle" }, { "pid": 100, "key": "43", "state": "active" }])));
    session(&mut trial, json!({ "pid": 7, "state": "idle in transaction", "state_age": 59, "is_own": false }));
    session(
        &mut trial,
        json!({ "pid": 8, "state": "idle in transaction", "state_age": 99, "xmin_age": 99_999, "is_own": true }),
    );
    // A statement at work has temporary files, and so have cursors of a moment ago.
    session(&mut trial, json!({ "pid": 9, "state": "active" }));
    trial.server().temporary = Ok(rows(json!([{ "pid": 9, "age": 9_999 }, { "pid": 100, "age": 3_599 }])));
    trial.pooler().pins =
        Ok(rows(json!([{ "kind": "cursor", "age": "3599" }, { "kind": "temporary", "age": "99999" }])));
    assert_eq!(trial.findings().found, []);
}

#[test]
fn an_advisory_lock_of_a_client_is_not_stranded_and_without_a_pooler_nobody_knows() {
    let mut trial = healthy();
    trial.server().advisory = Ok(rows(json!([{ "pid": 100, "key": "42", "state": "idle", "application": "migrate" }])));
    trial.pooler().servers.as_mut().expect("servers")[0].insert("link".to_owned(), "C-0x7".to_owned());
    assert_eq!(trial.said("D26"), [""; 0]);
    trial.seen.pooler = Err("--pooler".to_owned());
    assert_eq!(trial.said("D26"), ["needs --pooler (known: 1 advisory lock held by idle sessions: pid 100 (migrate))"]);
}

#[test]
fn a_pinned_cursor_is_told_whatever_the_server_does_not_say() {
    let old = json!([{ "kind": "cursor", "database": "app", "client": "C-0x1", "server": "S-0x2", "age": "3601" }]);
    let told = "I database app client C-0x1 keeps server S-0x2 by a cursor WITH HOLD for 60 min";
    let refused = || "pg_ls_tmpdir (42501: permission denied)".to_owned();
    let mut trial = healthy();
    trial.pooler().pins = Ok(rows(old));
    trial.server().temporary = Err(refused());
    assert_eq!(trial.said("D25"), [told.to_owned(), format!("needs {}", refused())]);
    trial.seen.server = Err("--server".to_owned());
    assert_eq!(trial.said("D25"), [told, "needs --server"]);
}

#[test]
fn nothing_is_good_where_nothing_was_seen() {
    let mut trial = healthy();
    trial.seen.server = Err("--server".to_owned());
    trial.seen.host = Err("--host".to_owned());
    trial.seen.pooler = Err("--pooler".to_owned());
    trial.seen.waits = Err("--server".to_owned());
    trial.seen.history = Err("--history".to_owned());
    let findings = trial.findings();
    assert_eq!((findings.good.len(), findings.found.len()), (0, 0), "{:?}", findings.good);
    assert_eq!(findings.rules_unevaluated(), RULES.len());
}

/// Whatever one answer lacks, nothing panics, and the rules that need it say so.
#[test]
fn a_refused_answer_is_not_evaluated() {
    let refused = || "pg_authid (42501: permission denied)".to_owned();
    let mut trial = healthy();
    trial.server().secrets = Err(refused());
    assert_eq!(trial.said("D28"), ["needs pg_authid (42501: permission denied)"]);
    trial.server().settings = Err(refused());
    trial.server().about = Err(refused());
    trial.server().activity = Err(refused());
    trial.server().after = Err(refused());
    trial.server().inside[0].1 = Err(refused());
    let findings = trial.findings();
    for rule in ["D01", "D02", "D03", "D05", "D06", "D23", "D36", "D40", "D42", "D45"] {
        assert!(findings.unevaluated.iter().any(|one| one.rule == rule), "{rule}");
    }
    assert!(findings.worst().is_none_or(|worst| worst == Severity::Information), "{:#?}", findings.found);
}

#[test]
fn few_samples_are_no_share() {
    let mut trial = healthy();
    trial.seen.waits = Ok(waits(9, &[("active", "Client", "ClientWrite", 5)]));
    assert!(trial.said("D17")[0].starts_with("needs more load: in 9 samples 45 sessions"), "{:?}", trial.said("D17"));
}

#[test]
fn each_rule_has_a_name_of_its_own_and_all_its_texts() {
    assert!(RULES.windows(2).all(|pair| pair[0].rule.id < pair[1].rule.id));
    assert_eq!(RULES.len(), 47);
    for rule in RULES.iter().map(|rule| &rule.rule) {
        let texts = [rule.title, rule.condition, rule.formula, rule.advice, rule.source];
        assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('|')), "{}", rule.id);
        assert!(!rule.formula.contains('`'), "{}", rule.id);
    }
}
