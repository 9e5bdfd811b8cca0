//! What is played: the requests of a recording as texts, with values.
//!
//! Always true: the same recording and seed give the same texts; unless it may write, a script has no statement by which a transaction that
//! only reads could become another, and what is not understood is left out.
//! Not here: when they are sent, and to whom (`player`).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::Random;

use crate::record::{RecordedRequest, Recording, Statement, Values};

/// Requests by sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Script {
    pub(super) sessions: Vec<Vec<Planned>>,
    /// How many requests are left out, by why.
    pub(super) left_out: BTreeMap<&'static str, u64>,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Planned {
    /// When it is to be sent, in microseconds of the run.
    pub(super) at: u64,
    /// The number of its statement in the recording.
    pub(super) statement: usize,
    pub(super) sql: Rc<str>,
}

impl Script {
    /// # Errors
    /// The recording has no values.
    pub(super) fn new(recording: &Recording, speed: f64, seed: u64, may_write: bool) -> Result<Self, String> {
        if recording.sessions.len() > SESSIONS_MAX {
            return Err(format!(
                "{} sessions are more than the {SESSIONS_MAX} that are played",
                recording.sessions.len()
            ));
        }
        if recording.values == Values::None {
            return Err("the recording has no values: record with --values spread or literals".to_owned());
        }
        let mut script = Self::default();
        let mut random = Random::new(seed);
        let mut bytes = 0;
        for session in &recording.sessions {
            let mut planned = Vec::new();
            for request in &session.requests {
                let Some(text) = text(&recording.statements[request.statement], request, &mut random) else {
                    script.leave_out("values are missing");
                    continue;
                };
                let sql = if may_write { Ok(text) } else { reading(&text) };
                match sql {
                    Ok(sql) => {
                        bytes += sql.len();
                        if bytes > BYTES_MAX {
                            return Err(format!("its texts have more than {} MB", BYTES_MAX >> 20));
                        }
                        let at = (request.at * 1e6 / speed) as u64;
                        planned.push(Planned { at, statement: request.statement, sql: sql.into() });
                    }
                    Err(why) => script.leave_out(why),
                }
            }
            if !planned.is_empty() {
                script.sessions.push(planned);
            }
        }
        Ok(script)
    }

    pub(super) fn requests(&self) -> usize {
        self.sessions.iter().map(Vec::len).sum()
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}

/// A statement with values in their places.
fn text(statement: &Statement, request: &RecordedRequest, random: &mut Random) -> Option<String> {
    let mut text = String::new();
    for (place, part) in statement.parts.iter().enumerate() {
        if let Some(before) = place.checked_sub(1) {
            match (request.values.get(before), statement.spreads.get(before)) {
                (Some(value), _) => text.push_str(value),
                (None, Some(spread)) => text.push_str(&spread.draw(random)),
                (None, None) => return None,
            }
        }
        text.push_str(part);
    }
    Some(text)
}

/// Each is a connection.
const SESSIONS_MAX: usize = 5_000;
const BYTES_MAX: usize = 512 << 20;

/// A text that changes nothing: whatever its session is in, its transaction only reads before it is executed.
fn reading(text: &str) -> Result<String, &'static str> {
    let statements = route::statements(text.as_bytes()).map_err(|_| "cannot be read")?;
    let [only] = &statements[..] else { return Err("has several statements") };
    let text = &text[only.clone()];
    let names = names(text).ok_or("has a name with Unicode escapes")?;
    let first = names.first().map_or("", String::as_str);
    let has = |word: &str| names.iter().any(|known| known == word);
    match first {
        "begin" | "start" | "set" | "reset" if has("write") || changes_writing(text) => Err("writes"),
        "commit" | "rollback" | "prepare" if has("prepared") || first == "prepare" => Err("writes"),
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => Ok(text.to_owned()),
        "set" | "reset" | "show" | "fetch" | "move" | "close" => Ok(text.to_owned()),
        "select" | "with" | "values" | "table" | "explain" | "declare" if has_effects(&names) => {
            Err("does more than read")
        }
        "select" | "with" | "values" | "table" | "explain" | "declare" => {
            Ok(format!("SET TRANSACTION READ ONLY; {text}"))
        }
        "insert" | "update" | "delete" | "merge" | "copy" | "create" | "alter" | "drop" | "truncate" => Err("writes"),
        _ => Err("is no statement that reads"),
    }
}

/// Words and quoted names, in lower case; `None` if one has escapes, so that it is called otherwise than it looks.
fn names(text: &str) -> Option<Vec<String>> {
    use route::lexer::{Kind, Lexer};
    let mut names = Vec::new();
    for token in Lexer::new(text.as_bytes(), route::Dialect::default()) {
        let written = text.get(token.range())?;
        match token.kind {
            Kind::Word => names.push(written.to_ascii_lowercase()),
            Kind::Quoted => names.push(written.trim_matches('"').to_ascii_lowercase()),
            Kind::QuotedUnicode => return None,
            _ => {}
        }
    }
    Some(names)
}

/// Whether a text names a setting by which transactions write again, however it is quoted.
fn changes_writing(text: &str) -> bool {
    text.to_ascii_lowercase().contains("read_only")
}

/// Whether a text calls a function that does something outside of its transaction.
fn has_effects(names: &[String]) -> bool {
    names.iter().any(|name| EFFECTS.iter().any(|known| name.starts_with(known)))
}

/// How the names of functions begin whose effects a transaction that only reads does not prevent (PostgreSQL manual, "System Administration
/// Functions", "Large Objects", "Monitoring Database Activity"), or that run a text which nobody has read. That `set_config` has a transaction
/// write again is refused, since a query has its snapshot before it calls anything.
const EFFECTS: [&str; 32] = [
    "pg_terminate_backend",
    "pg_cancel_backend",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_promote",
    "pg_switch_wal",
    "pg_create_",
    "pg_drop_",
    "pg_copy_",
    "pg_wal_replay_",
    "pg_backup_",
    "pg_start_backup",
    "pg_stop_backup",
    "pg_replication_",
    "pg_logical_",
    "pg_advisory_",
    "pg_try_advisory_",
    "pg_notify",
    "pg_stat_reset",
    "pg_stat_statements_reset",
    "pg_stat_force_",
    "pg_file_",
    "pg_log_",
    "pg_import_",
    "pg_export_snapshot",
    "lo_",
    "lowrite",
    "dblink",
    "query_to_xml",
    "cursor_to_xml",
    "table_to_xml",
    "ts_stat",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(values: &str, sessions: &str) -> Recording {
        let statement = serde_json::json!({"parts": ["select 1"], "calls": 1});
        let written = format!(
            r#"{{"schema":1,"kind":"","pooler":"","database":"","began":"","seconds":1.0,"values":"{values}","dropped":0,"left_out":0,
            "statements":[{statement}],"sessions":[{sessions}]}}"#
        );
        Recording::read(&written).expect("a recording")
    }

    #[test]
    fn what_cannot_be_played_is_told() {
        let session = r#"{"requests":[{"at":0.0,"statement":0}]}"#;
        let why = |recording: &Recording| Script::new(recording, 1.0, 1, false).expect_err("it cannot be played");
        assert!(why(&recording("none", session)).contains("--values spread or literals"));
        let many = vec![session; SESSIONS_MAX + 1].join(",");
        assert!(why(&recording("literals", &many)).contains("5001 sessions are more than"));
        let mut long = recording("literals", session);
        long.statements[0].parts = vec![format!("select {}", "1 + ".repeat(1 << 18) + "1")];
        let request = long.sessions[0].requests[0].clone();
        long.sessions[0].requests = vec![request; 1 + (BYTES_MAX >> 20)];
        assert!(Script::new(&long, 1.0, 1, true).expect_err("it is too long").contains("more than 512 MB"));
    }

    fn script(texts: &[&str], may_write: bool) -> Script {
        let requests: String = (0..texts.len())
            .map(|number| format!("{{\"at\": {number}.0, \"statement\": {number}}}"))
            .collect::<Vec<_>>()
            .join(",");
        let statements: Vec<_> =
            texts.iter().map(|text| serde_json::json!({"parts": [text], "calls": 1}).to_string()).collect();
        let written = format!(
            r#"{{"schema":1,"kind":"","pooler":"","database":"","began":"","seconds":1.0,"values":"literals","dropped":0,"left_out":0,
            "statements":[{}],"sessions":[{{"requests":[{requests}]}}]}}"#,
            statements.join(",")
        );
        Script::new(&Recording::read(&written).expect("a recording"), 2.0, 1, may_write).expect("a script")
    }

    fn texts(script: &Script) -> Vec<&str> {
        script.sessions.iter().flatten().map(|planned| &*planned.sql).collect()
    }

    #[test]
    fn what_reads_is_played_in_transactions_that_only_read() {
        let script = script(&["select 1", "begin", "select 2", "commit", "show search_path", "begin read only"], false);
        assert_eq!(
            texts(&script),
            [
                "SET TRANSACTION READ ONLY; select 1",
                "begin",
                "SET TRANSACTION READ ONLY; select 2",
                "commit",
                "show search_path",
                "begin read only"
            ]
        );
        assert_eq!(script.sessions[0][1].at, 500_000, "twice as fast");
    }

    #[test]
    fn what_could_write_is_left_out() {
        for text in [
            "insert into t values (1)",
            "begin read write",
            "set transaction read write",
            "set \"transaction_read_only\" = off",
            "set default_transaction_read_only to off",
            "reset transaction_read_only",
            "select 1; insert into t values (1)",
            "commit; delete from t",
            "commit prepared 'a'",
            "select pg_terminate_backend(1)",
            "select \"pg_terminate_backend\"(1)",
            "select pg_catalog.\"pg_promote\"()",
            "select U&\"pg!005fpromote\" uescape '!' ()",
            "set U&\"transaction_read!005fonly\" uescape '!' = off",
            "select pg_notify('a', 'b')",
            "select lo_unlink(1)",
            "select query_to_xml('select pg_promote()', true, true, '')",
            "prepare transaction 'a'",
            "select dblink_exec('', 'drop table t')",
            "copy t to program 'rm'",
            "do $$ begin end $$",
            "call f()",
            "select 'abc",
            "vacuum",
        ] {
            let script = script(&[text], false);
            assert_eq!(script.requests(), 0, "{text}: {script:?}");
            assert_eq!(script.left_out.values().sum::<u64>(), 1);
        }
    }

    #[test]
    fn with_the_word_all_is_played_as_it_was() {
        let all = ["insert into t values (1)", "select 1; select 2"];
        assert_eq!(texts(&script(&all, true)), all);
    }
}
