//! The report as text for a terminal.

use std::fmt::Write as _;

use super::classic::timestamp;
use super::report::{Counts, MemberReport, PathReport, ReaderReport, Report};
use crate::table::{Table, count, short};

/// The report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "run {} in {}: {} s, {} on each path, a write each {} ms\n",
        report.run,
        report.table,
        short(report.duration_s),
        plural(u64::from(report.writers), "writer"),
        short(report.every_ms),
    );
    lines(&mut out, paths(report).lines());
    report.paths.iter().for_each(|path| path_notes(&mut out, path, report.fault_at_s));
    if !report.readers.is_empty() {
        out.push('\n');
        lines(&mut out, readers(report).lines());
        report.readers.iter().for_each(|reader| reader_notes(&mut out, reader));
    }
    out.push('\n');
    fault(&mut out, report);
    let _ = writeln!(out, "{}", verdict(report));
    for (what, why) in [
        ("the former primary could not be asked", &report.old_primary_error),
        ("the rows of this run are still there", &report.clean_error),
    ] {
        if let Some(why) = why {
            let _ = writeln!(out, "{what}: {why}");
        }
    }
    out
}

fn lines(out: &mut String, lines: Vec<String>) {
    for line in lines {
        out.push_str(&line);
        out.push('\n');
    }
}

fn paths(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("", &["path"]),
        ("writes", &["acked", "refused", "unknown", "unsent"]),
        ("of these", &["lost", "phantom", "twice"]),
        ("no ack for", &["ms", "from s"]),
        ("latency, ms", &["p50", "p99", "max"]),
        ("", &["broken"]),
    ]);
    let known = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), whole);
    for path in &report.paths {
        table.row(vec![
            path.name.clone(),
            whole(path.acked),
            whole(path.refused),
            whole(path.unknown),
            whole(path.unsent),
            known(path.lost),
            known(path.phantom),
            known(path.duplicate),
            count(path.gap_ms),
            format!("{:.1}", path.gap_from_s),
            short(path.p50_ms),
            short(path.p99_ms),
            short(path.max_ms),
            whole(path.broken),
        ]);
    }
    table
}

fn readers(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("", &["reader"]),
        ("", &["reads", "errors"]),
        ("no answer for", &["ms", "from s"]),
        ("newest row, ms", &["stale", "age"]),
        ("latency, ms", &["p50", "p99", "max"]),
        ("", &["broken"]),
    ]);
    for reader in &report.readers {
        table.row(vec![
            reader.name.clone(),
            whole(reader.reads),
            whole(reader.errors.values().sum()),
            count(reader.gap_ms),
            format!("{:.1}", reader.gap_from_s),
            count(reader.stale_max_ms),
            count(reader.age_max_ms),
            short(reader.p50_ms),
            short(reader.p99_ms),
            short(reader.max_ms),
            whole(reader.broken),
        ]);
    }
    table
}

/// What does not fit into a row of the table.
fn path_notes(out: &mut String, path: &PathReport, fault: Option<f64>) {
    let mut note = |text: String| {
        let _ = writeln!(out, "  {}: {text}", path.name);
    };
    let end = if path.gap_is_open { ", and it lasts" } else { "" };
    let ms = count(path.gap_ms);
    note(format!("no acknowledgement for {ms} ms from {}{end}", timestamp(path.gap_from_unix_ms.saturating_mul(1000))));
    if path.gap_writer_ms > path.gap_ms * 1.5 {
        note(format!("a single writer had none for {} ms", count(path.gap_writer_ms)));
    }
    if fault.is_some() {
        note(match path.fault_recovered_ms {
            Some(after) => format!("writes went on {} ms after the fault command was started", count(after)),
            None => "no write was acknowledged again after the fault".to_owned(),
        });
    }
    if !path.errors.is_empty() {
        note(format!("refused: {}", codes(&path.errors)));
    }
    if path.unknown > 0 {
        let found = match (path.unknown_present, path.unknown_absent) {
            (Some(present), Some(absent)) => format!(": {present} are there, {absent} are not"),
            _ => String::new(),
        };
        note(format!("unknown: {}{found}", codes(&path.unknown_codes)));
    }
    connections(&mut note, &path.connect_errors, &path.broken_codes);
    members(&mut note, "acknowledged by", &path.members);
    if !path.lost_rows.is_empty() {
        note(format!("LOST, by writer and number: {}", path.lost_rows.join(", ")));
    }
    if let Some(divergence) = path.divergence {
        note(format!("{} only on the former primary", plural(divergence, "row")));
    }
}

fn reader_notes(out: &mut String, reader: &ReaderReport) {
    let mut note = |text: String| {
        let _ = writeln!(out, "  {}: {text}", reader.name);
    };
    if !reader.errors.is_empty() {
        note(format!("errors: {}", codes(&reader.errors)));
    }
    connections(&mut note, &reader.connect_errors, &reader.broken_codes);
    members(&mut note, "read from", &reader.members);
}

fn connections(note: &mut impl FnMut(String), failed: &Counts, broken: &Counts) {
    if !failed.is_empty() {
        note(format!("could not connect: {}", codes(failed)));
    }
    if !broken.is_empty() {
        note(format!("connections broken: {}", codes(broken)));
    }
}

fn members(note: &mut impl FnMut(String), what: &str, members: &[MemberReport]) {
    for member in members {
        let MemberReport { address, role, answers, first_s, last_s } = member;
        note(format!("{what} {role} {address}: {} from {first_s:.3} s to {last_s:.3} s", whole(*answers)));
    }
}

fn fault(out: &mut String, report: &Report) {
    let Some(at) = report.fault_at_s else { return };
    let end = match (report.fault_end_s, report.fault_exit_code) {
        (Some(end), Some(code)) => format!("ended at {end:.3} s with exit code {code}"),
        (Some(end), None) => format!("was ended by a signal at {end:.3} s"),
        (None, _) => "has not ended".to_owned(),
    };
    let _ = writeln!(out, "the fault command was started at {at:.3} s and {end}");
}

fn verdict(report: &Report) -> String {
    let server = report.verified_on.as_deref().unwrap_or("nobody");
    match (report.lost, report.duplicate) {
        (Some(0), Some(0)) if report.acked == 0 => "nothing was acknowledged, so nothing is proved".to_owned(),
        (Some(0), Some(0)) => format!("all {} acknowledged writes are on {server}, each once", whole(report.acked)),
        (Some(lost), Some(duplicate)) => {
            let lost = (lost > 0).then(|| format!("LOST: {}", plural(lost, "acknowledged write")));
            let twice = (duplicate > 0).then(|| format!("TWICE: {}", plural(duplicate, "write")));
            let found: Vec<String> = lost.into_iter().chain(twice).collect();
            format!("{} (according to {server})", found.join("; "))
        }
        _ => format!("NOT VERIFIED: {}", report.verify_error.as_deref().unwrap_or("no primary")),
    }
}

fn codes(codes: &Counts) -> String {
    let one = |(code, times): (&String, &u64)| format!("{code} x {}", whole(*times));
    codes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn plural(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", whole(number)) }
}

fn whole(number: u64) -> String {
    count(number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lost: Option<u64>) -> Report {
        let path = PathReport {
            name: "A".to_owned(),
            acked: 2900,
            unknown: 2,
            lost,
            phantom: lost.map(|_| 0),
            duplicate: lost.map(|_| 0),
            unknown_present: Some(1),
            unknown_absent: Some(1),
            gap_ms: 1234.5,
            gap_from_s: 20.125,
            gap_writer_ms: 2500.0,
            fault_recovered_ms: Some(1240.0),
            unknown_codes: Counts::from([("closed".to_owned(), 2)]),
            lost_rows: lost.filter(|lost| *lost > 0).map(|_| "0:7-9".to_owned()).into_iter().collect(),
            members: vec![MemberReport {
                address: "10.0.0.1:5432".to_owned(),
                role: "primary",
                answers: 2900,
                first_s: 0.01,
                last_s: 59.99,
            }],
            ..PathReport::default()
        };
        Report {
            verdict: "ok",
            exit_code: 0,
            run: 7,
            table: "hatest_ledger".to_owned(),
            started_unix_ms: 0,
            duration_s: 60.0,
            writers: 1,
            every_ms: 20.0,
            verified: lost.is_some(),
            verified_on: lost.map(|_| "10.0.0.2:5432".to_owned()),
            verify_error: lost.is_none().then(|| "a:1: refused".to_owned()),
            old_primary_error: None,
            clean_error: None,
            fault_at_s: Some(20.0),
            fault_end_s: Some(20.5),
            fault_exit_code: Some(0),
            sent: 2902,
            acked: 2900,
            refused: 0,
            unknown: 2,
            unsent: 0,
            lost,
            phantom: lost.map(|_| 0),
            duplicate: lost.map(|_| 0),
            divergence: None,
            paths: vec![path],
            readers: Vec::new(),
        }
    }

    #[test]
    fn the_text_has_the_outage_and_the_verdict() {
        let text = text(&report(Some(0)));
        for wanted in [
            "run 7 in hatest_ledger: 60.0 s, 1 writer on each path, a write each 20.0 ms",
            "1,234",
            "20.1",
            "A: a single writer had none for 2,500 ms",
            "A: writes went on 1,240 ms after the fault command was started",
            "A: unknown: closed x 2: 1 are there, 1 are not",
            "A: acknowledged by primary 10.0.0.1:5432: 2,900 from 0.010 s to 59.990 s",
            "the fault command was started at 20.000 s and ended at 20.500 s with exit code 0",
            "all 2,900 acknowledged writes are on 10.0.0.2:5432, each once",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn what_is_lost_is_said_and_so_is_what_is_not_known() {
        let lost = text(&report(Some(3)));
        assert!(lost.contains("A: LOST, by writer and number: 0:7-9"), "{lost}");
        assert!(lost.ends_with("LOST: 3 acknowledged writes (according to 10.0.0.2:5432)\n"), "{lost}");
        let unknown = text(&report(None));
        assert!(unknown.ends_with("NOT VERIFIED: a:1: refused\n") && unknown.contains(" ? "), "{unknown}");
    }
}
