//! The command as a whole: mutes, exit statuses, the line of a start, and time.

use super::*;
use crate::findings::Subject;

fn lint(text: &str) -> Findings {
    rules::lint_all(&[text], &[])
}

const BASE: &str = "[databases]\nd = host=10.0.0.1\n[pgbouncer]\n";

fn rules_of(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_mute_with_a_reason_is_told_with_it_and_does_not_count() {
    let findings = lint(&format!("; lint: ignore L14 the network is local\n{BASE}"));
    assert!(!rules_of(&findings.found).contains(&"L14"));
    assert_eq!(findings.muted.len(), 1);
    let muted = &findings.muted[0];
    assert_eq!((muted.finding.rule, &*muted.reason, muted.line), ("L14", "the network is local", 1));
}

#[test]
fn a_mute_without_a_reason_mutes_nothing_and_is_a_finding() {
    let findings = lint(&format!("; lint: ignore L14\n; lint: ignore L99 nobody knows it\n{BASE}"));
    let found = rules_of(&findings.found);
    assert!(found.contains(&"L14") && found.iter().filter(|rule| **rule == "F02").count() == 2, "{found:?}");
}

#[test]
fn a_mute_that_mutes_nothing_is_a_note_and_mistakes_cannot_be_muted() {
    let findings = lint(&format!("; lint: ignore L10 there is none\n{BASE}pool_mod = session\n"));
    let found = rules_of(&findings.found);
    assert!(found.contains(&"F03") && found.contains(&"F01"), "{found:?}");
    let mistake = findings.found.iter().find(|finding| finding.rule == "F01").expect("a mistake");
    assert!(mistake.subject.line == 5 && mistake.evidence.contains("pool_mode"), "{mistake:?}");
    let other = lint(&format!("; lint: ignore F01 please\n{BASE}pool_mod = session\n"));
    assert!(rules_of(&other.found).contains(&"F01"));
}

#[test]
fn the_status_is_that_of_the_worst_finding() {
    let quiet = "auth_type = scram-sha-256\ntcp_keepidle = 30\nserver_tls_sslmode = require\n";
    for (text, status) in [
        (format!("{BASE}{quiet}"), 0),
        (format!("{BASE}{quiet}max_db_connections = 900\n"), 0),
        (BASE.to_owned(), 1),
        (format!("{BASE}default_pool_size = 0\n"), 2),
        ("no configuration".to_owned(), 3),
    ] {
        let file = rules::Scratch::new("a.ini", &text);
        let outcome = run(&LintOptions::for_file(file.path()));
        assert_eq!(outcome.status, status, "{}\n{:?}", outcome.text, outcome.problems);
    }
    let outcome = run(&LintOptions::for_file("/nowhere/a.ini"));
    assert!(outcome.status == 3 && outcome.problems[0].contains("/nowhere/a.ini: No such file"), "{outcome:?}");
    assert!(run(&LintOptions::for_file("/tmp")).problems[0].contains("directory"));
}

#[test]
fn the_line_of_a_start_counts_what_is_not_muted() {
    let line = |text: &str| {
        let read = |_: &str| Ok(text.as_bytes().to_vec());
        let loaded = config::load("a.ini", &read, &config::Overrides::default()).expect("settings");
        line_of_start("a.ini", &loaded, &read)
    };
    let quiet = "auth_type = scram-sha-256\nserver_tls_sslmode = require\n";
    assert_eq!(
        line(&format!("{BASE}{quiet}")).as_deref(),
        Some("lint: 1 warning; trunkline lint --kind trunkline a.ini shows them")
    );
    assert_eq!(line(&format!("{BASE}{quiet}; lint: ignore L14 local\n")), None);
    let worse = line(&format!("{BASE}{quiet}default_pool_size = 0\nquery_wait_timeout = 0\n"));
    assert_eq!(worse.as_deref(), Some("lint: 1 error, 2 warnings; trunkline lint --kind trunkline a.ini shows them"));
}

/// Opening a pipe without a writer would block the start for ever.
#[test]
fn a_configuration_from_a_pipe_is_not_opened_again() {
    let file = rules::Scratch::new("pipe", "");
    std::fs::remove_file(file.path()).expect("removed");
    nix::unistd::mkfifo(file.path(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let read = |_: &str| Ok(BASE.as_bytes().to_vec());
    let loaded = config::load(file.path(), &read, &config::Overrides::default()).expect("settings");
    assert!(at_start(file.path(), &loaded).is_some_and(|line| line.starts_with("lint: ")));
}

/// The time is not compared with a clock, because tests run beside others: ten times the databases may take at most twenty times the
/// instructions' time of a thread.
#[test]
fn twenty_thousand_databases_are_judged_in_time_linear_in_their_number() {
    let text = |count: usize| {
        // No two of them are equal, so that nothing is told together.
        let line =
            |n| format!("d{n} = host=h{n} user=u{n} pool_size={} max_db_connections={}\n", n % 1000 + 1, n % 777 + 1);
        let databases: String = (0..count).map(line).collect();
        format!("[pgbouncer]\nmin_pool_size = 2\nmax_user_connections = 1\n[databases]\n{databases}")
    };
    let cost = |count: usize| {
        let text = text(count);
        let before = processor_time();
        let findings = lint(&text);
        assert!(!findings.found.is_empty());
        processor_time() - before
    };
    let (small, large) = (cost(2_000), cost(20_000));
    println!("2,000 databases: {small:?}, 20,000 databases: {large:?}");
    assert!(large < small * 20, "{small:?} became {large:?}");
}

/// The pooler judges its configuration when it starts, and would not start if a rule panicked: arithmetic with the largest values, a division
/// by what is 0, a text that has no end.
#[test]
fn no_value_that_a_configuration_may_have_panics_a_rule() {
    let settings = config::Settings::default().show();
    let mut random = base::Random::new(42);
    let mut judged = 0;
    let mut judge = |text: &str| {
        let read = |_: &str| Ok(text.as_bytes().to_vec());
        let Ok(loaded) = config::load("a.ini", &read, &config::Overrides::default()) else { return };
        line_of_start("a.ini", &loaded, &read);
        judged += 1;
    };
    for setting in &settings {
        for value in EXTREMES {
            judge(&format!("{BASE}{} = {value}\n", setting.key));
        }
    }
    for _ in 0..3000 {
        let mut pick = |many: usize| (random.next_u64() % many as u64) as usize;
        let mut text = String::from("[databases]\n");
        for line in 0..pick(4) {
            let _ = write!(text, "d{line} = host=h{}", pick(3));
            for _ in 0..pick(6) {
                let _ = write!(text, " {}={}", DATABASE_WORDS[pick(DATABASE_WORDS.len())], EXTREMES[pick(NUMBERS)]);
            }
            text.push('\n');
        }
        text.push_str("[users]\n");
        for line in 0..pick(3) {
            let (size, connections) = (EXTREMES[pick(NUMBERS)], EXTREMES[pick(NUMBERS)]);
            let _ = writeln!(text, "u{line} = pool_size={size} max_user_connections={connections}");
        }
        text.push_str("[pgbouncer]\n");
        for _ in 0..pick(9) {
            let _ = writeln!(text, "{} = {}", settings[pick(settings.len())].key, EXTREMES[pick(EXTREMES.len())]);
        }
        judge(&text);
    }
    assert!(judged > 1500, "{judged} were configurations");
}

/// What numbers may be written as, and other words; the numbers come first.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "1000",
    "65535",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "0.000001",
    "1e300",
    "1e-300",
    "-1",
    "",
    "*",
    "session",
    "transaction",
    "disabled",
    "require",
    "trust",
    "scram-sha-256",
    "\u{7f}\u{20ac}",
    "'",
    "a,b,,c",
    "127.0.0.1/0",
    "::/0",
    "/",
];
const NUMBERS: usize = 12;
const DATABASE_WORDS: &[&str] = &[
    "pool_size",
    "min_pool_size",
    "reserve_pool_size",
    "max_db_connections",
    "max_db_client_connections",
    "port",
    "connect_query",
    "user",
    "server_lifetime",
    "pool_mode",
    "load_balance_hosts",
];

fn processor_time() -> std::time::Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
    std::time::Duration::from(time)
}

#[test]
fn each_rule_has_a_name_of_its_own_and_all_its_texts() {
    let rules: Vec<&Rule> = every_rule().collect();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), rules.len());
    for rule in rules {
        let texts = [rule.title, rule.condition, rule.formula, rule.advice, rule.source];
        assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('|')), "{}", rule.id);
        assert!(!rule.formula.contains('`'), "{}", rule.id);
    }
    assert!(RULES.windows(2).all(|pair| pair[0].rule.id < pair[1].rule.id));
}

/// A finding for tests of other rooms.
pub(crate) fn finding(rule: &'static str, file: &str, line: u32) -> Finding {
    let known = every_rule().find(|known| known.id == rule).expect("a rule");
    let subject = Subject { file: file.to_owned(), line, name: "default_pool_size".to_owned() };
    Finding {
        rule,
        severity: known.severity,
        title: known.title,
        subject,
        evidence: "3 x (94 + 18) = 336 <connections>".to_owned(),
        formula: known.formula,
        advice: known.advice.to_owned(),
        source: known.source,
    }
}
