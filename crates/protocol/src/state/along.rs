//! Sends settings to a server in the same packet as a client's request, so that the server answers both at once.
//!
//! Always true: the settings are set whole or not at all, and stay set whatever becomes of the request, because they are
//! a transaction of their own; if it fails, the server skips everything behind it up to a Sync (`ignore_till_sync` in
//! `tcop/postgres.c`), and so the request.
//! Not here: which requests may follow the settings (`worker::data::catch_up`), which answers are awaited (`exchange`).

use serde::{Deserialize, Serialize};
use wire::write;

/// The prepared statements for this purpose that a server has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SettingStatements {
    /// One bit for each statement that the server has.
    known: u32,
    /// One bit for each name under which something else may have been prepared.
    doubted: u32,
}

impl SettingStatements {
    /// Appends the messages that set these settings, each to its value or, with `None`, to the value with which the
    /// session began. Returns the number of answers; `None` if there are no settings or too many.
    pub fn set(&mut self, settings: &[(&str, Option<&str>)], out: &mut Vec<u8>) -> Option<u32> {
        let count = settings.len();
        if count == 0 || count > SETTINGS_MAX {
            return None;
        }
        let mut answers = 0;
        let mut step = |place: usize, sql: &dyn Fn() -> String, values: &[(&str, Option<&str>)]| {
            let name = NAMES[place];
            if self.known & 1 << place == 0 {
                if self.doubted & 1 << place != 0 {
                    // Close of a statement that does not exist is no error.
                    write::close(out, name);
                    answers += 1;
                }
                write::parse(out, name.as_bytes(), &sql(), std::iter::empty());
                self.known |= 1 << place;
                answers += 1;
            }
            let value = |at: usize| if at.is_multiple_of(2) { Some(values[at / 2].0) } else { values[at / 2].1 };
            write::bind(out, name, (0..2 * values.len()).map(value));
            write::execute(out);
            answers += 2;
        };
        step(0, &|| "BEGIN".into(), &[]);
        step(count, &|| set(count), settings);
        step(SETTINGS_MAX + 1, &|| "COMMIT".into(), &[]);
        Some(answers)
    }

    /// The server has dropped all prepared statements, or may have, or something else may have been prepared under these
    /// names.
    pub fn doubt(&mut self) {
        self.doubted = u32::MAX;
        self.known = 0;
    }
}

/// The statement that sets `count` settings.
fn set(count: usize) -> String {
    let each = |place: usize| format!("pg_catalog.set_config(${},${},false)", 2 * place + 1, 2 * place + 2);
    format!("SELECT {}", (0..count).map(each).collect::<Vec<_>>().join(","))
}

/// Whether this may be the name of one of these statements.
#[must_use]
pub fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b"TRUNKLINE_STATE_")
}

/// More settings than this are sent in a packet of their own.
const SETTINGS_MAX: usize = 10;
/// The names of the statements: the first begins a transaction, the next set 1 to 10 settings, and the last commits.
const NAMES: [&str; SETTINGS_MAX + 2] = [
    "TRUNKLINE_STATE_BEGIN",
    "TRUNKLINE_STATE_1",
    "TRUNKLINE_STATE_2",
    "TRUNKLINE_STATE_3",
    "TRUNKLINE_STATE_4",
    "TRUNKLINE_STATE_5",
    "TRUNKLINE_STATE_6",
    "TRUNKLINE_STATE_7",
    "TRUNKLINE_STATE_8",
    "TRUNKLINE_STATE_9",
    "TRUNKLINE_STATE_10",
    "TRUNKLINE_STATE_COMMIT",
];

#[cfg(test)]
mod tests {
    use wire::frame::{Scanner, Step};

    use super::*;

    fn kinds(bytes: &[u8]) -> String {
        let (mut scanner, mut at, mut kinds) = (Scanner::default(), 0, String::new());
        while let Step::Piece(piece) = scanner.next(bytes, at, u32::MAX) {
            kinds.push(char::from(piece.kind));
            at = piece.range.end;
        }
        kinds
    }

    #[test]
    fn what_is_prepared_is_prepared_once() {
        let mut statements = SettingStatements::default();
        let mut tell = |settings: &[(&str, Option<&str>)]| {
            let mut out = Vec::new();
            let answers = statements.set(settings, &mut out);
            (answers, kinds(&out), String::from_utf8_lossy(&out).into_owned())
        };
        let (answers, kinds, text) = tell(&[("a.b", Some("1")), ("work_mem", None)]);
        assert_eq!((answers, &*kinds), (Some(9), "PBEPBEPBE"));
        assert!(
            text.contains("SELECT pg_catalog.set_config($1,$2,false),pg_catalog.set_config($3,$4,false)"),
            "{text}"
        );
        let (answers, kinds, _) = tell(&[("a.b", Some("2")), ("work_mem", Some("1MB"))]);
        assert_eq!((answers, &*kinds), (Some(6), "BEBEBE"));
        let (answers, kinds, _) = tell(&[("a.b", None)]);
        assert_eq!((answers, &*kinds), (Some(7), "BEPBEBE"));
    }

    #[test]
    fn what_may_have_been_dropped_is_prepared_again_whether_or_not_it_was() {
        let (mut statements, mut out) = (SettingStatements::default(), Vec::new());
        statements.set(&[("a.b", None)], &mut out);
        statements.doubt();
        for expected in ["CPBECPBECPBE", "BEBEBE"] {
            out.clear();
            let answers = statements.set(&[("a.b", None)], &mut out);
            assert_eq!((answers, &*kinds(&out)), (Some(expected.len() as u32), expected));
        }
    }

    #[test]
    fn what_is_too_much_is_not_told() {
        let many = [("a.b", Some("1")); SETTINGS_MAX + 1];
        let mut out = Vec::new();
        assert_eq!(SettingStatements::default().set(&many, &mut out), None);
        assert_eq!(SettingStatements::default().set(&[], &mut out), None);
        assert!(out.is_empty());
        assert!(SettingStatements::default().set(&many[1..], &mut out).is_some());
    }
}
