//! Whether a request may be answered by a replica: because it says so, or because it is proven only to read.
//!
//! Always true: a text that is not understood, or that calls anything of which the catalog does not say that it only reads, is
//! not proven; a text is read token by token, once.
//! Not here: what is known of the names of a database (`read_names`), which clients' reads are routed (`worker`).

use crate::lexer::{Dialect, Encoding, Kind};
use crate::read_names::ReadNames;
use crate::split::Split;
use crate::words::Words;

/// What a text says of the server that may answer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// Nothing: the primary has to.
    No,
    /// A comment in front asks for the primary: `/* trunkline: primary */`.
    ForPrimary,
    /// A comment in front asks for a replica: `/* trunkline: replica */`.
    ForReplica,
    /// It begins a transaction that only reads (`BEGIN READ ONLY`).
    BeginsReadOnly,
    /// It needs the primary, or fails, even in a session whose transactions are read-only: it begins one that writes, or listens.
    NeedsPrimary,
    /// It is one statement that is proven only to read.
    Proven,
    /// It asks for a position in the log, `SHOW trunkline.lsn`, which is told by the primary, and not by this statement.
    ShowsPosition,
}

/// Reads a text. Without `names` nothing is proven.
#[must_use]
pub fn reads(text: &[u8], dialect: Dialect, names: Option<&ReadNames>) -> Reads {
    if let Some(asked) = asked(text) {
        return asked;
    }
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase);
    // BEGIN, LISTEN, NOTIFY, SELECT, SHOW, START, TABLE, UNLISTEN, VALUES, WITH, a parenthesis or a comment.
    if !first.is_some_and(|first| b"blnstuvw(/-".contains(&first)) {
        return Reads::No;
    }
    let split = Split::of(text, dialect);
    let mut statements = split.statements();
    let (Some(only), None) = (statements.next(), statements.next()) else { return Reads::No };
    let words = Words::new(text, &split.tokens[only], dialect.encoding);
    if split.is_dark {
        return Reads::No;
    }
    if words.is_one_of(0, &["begin", "start"]) {
        return begins(&words);
    }
    if words.is_one_of(0, &["listen", "unlisten", "notify"]) {
        return Reads::NeedsPrimary;
    }
    if words.are(0, &["show", "trunkline"]) {
        let is_position = words.is_symbol(2, b".") && words.is(3, "lsn") && words.end() == 4;
        return if is_position { Reads::ShowsPosition } else { Reads::No };
    }
    let is_proven = names.is_some_and(|names| dialect.encoding == Encoding::Safe && only_reads(&words, names));
    if is_proven { Reads::Proven } else { Reads::No }
}

/// What the comment in front of a text asks for.
fn asked(text: &[u8]) -> Option<Reads> {
    let rest = text.trim_ascii_start().strip_prefix(b"/*")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"trunkline")?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let is = |word: &[u8]| rest.strip_prefix(word).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"*/"));
    match () {
        () if is(b"replica") => Some(Reads::ForReplica),
        () if is(b"primary") => Some(Reads::ForPrimary),
        () => None,
    }
}

/// A replica has no serializable transactions (PostgreSQL manual, "Hot Standby").
fn begins(words: &Words<'_>) -> Reads {
    let places = || 1..words.end();
    if places().any(|at| words.are(at, &["read", "write"]) || words.is(at, "serializable")) {
        return Reads::NeedsPrimary;
    }
    if places().any(|at| words.are(at, &["read", "only"])) { Reads::BeginsReadOnly } else { Reads::No }
}

/// Whether a statement only reads, what is the same on a replica.
fn only_reads(words: &Words<'_>, names: &ReadNames) -> bool {
    let is_query = words.is_one_of(0, &["select", "values", "table", "with"]) || words.is_symbol(0, b"(");
    is_query && names.are_telling() && (0..words.end()).all(|at| is_harmless(words, at, names))
}

/// Whether a token changes nothing about a query that only reads.
fn is_harmless(words: &Words<'_>, at: usize, names: &ReadNames) -> bool {
    if words.kind(at) == Some(Kind::Word) {
        let is_lock = words.is(at, "for") && words.is_one_of(at + 1, &["update", "no", "share", "key"]);
        if is_lock || words.is_one_of(at, &WRITES) {
            return false;
        }
    } else if words.kind(at) != Some(Kind::Quoted) {
        return words.kind(at) != Some(Kind::Broken);
    }
    let Some(name) = words.name(at) else { return false };
    let name = name.bytes();
    if !words.is_symbol(at + 1, b"(") {
        let is_column = at > 0 && words.is_symbol(at - 1, b".");
        return !(names.is_kept(name) || is_column && names.acts_as_column(name));
    }
    match names.only_reads(name) {
        Some(only_reads) => only_reads,
        // A list of columns stands behind the name that is given to a table or to a query.
        None => {
            let is_word = words.kind(at) == Some(Kind::Word);
            let is_named = at > 0 && words.is_one_of(at - 1, &["as", "with", "recursive"]);
            is_named || is_word && BEFORE_PARENTHESES.contains(&name)
        }
    }
}

/// Words that no query has which only reads.
const WRITES: [&str; 5] = ["insert", "update", "delete", "merge", "into"];
/// Words of SQL that may stand before a parenthesis and call nothing, and types that no function is named after.
const BEFORE_PARENTHESES: [&[u8]; 75] = [
    b"all",
    b"and",
    b"any",
    b"array",
    b"as",
    b"between",
    b"by",
    b"case",
    b"cast",
    b"char",
    b"character",
    b"coalesce",
    b"cross",
    b"cube",
    b"current_time",
    b"current_timestamp",
    b"dec",
    b"decimal",
    b"distinct",
    b"else",
    b"end",
    b"escape",
    b"except",
    b"exists",
    b"extract",
    b"filter",
    b"first",
    b"float",
    b"from",
    b"greatest",
    b"group",
    b"having",
    b"ilike",
    b"in",
    b"inner",
    b"intersect",
    b"is",
    b"join",
    b"lateral",
    b"least",
    b"left",
    b"like",
    b"limit",
    b"localtime",
    b"localtimestamp",
    b"materialized",
    b"nchar",
    b"next",
    b"not",
    b"nullif",
    b"offset",
    b"on",
    b"only",
    b"or",
    b"over",
    b"overlay",
    b"partition",
    b"position",
    b"right",
    b"rollup",
    b"row",
    b"select",
    b"sets",
    b"some",
    b"substring",
    b"then",
    b"to",
    b"trim",
    b"union",
    b"using",
    b"values",
    b"varying",
    b"when",
    b"where",
    b"zone",
];

/// Whether a text may turn a transaction that only reads into one that writes, which PostgreSQL allows in front of its first query
/// (`SET TRANSACTION READ WRITE`, `SET transaction_read_only = off`), or goes on behind its end.
#[must_use]
pub fn may_write_after_all(text: &[u8]) -> bool {
    let goes_on = || {
        let rest = text.iter().position(|byte| *byte == b';').map_or(&[][..], |at| &text[at + 1..]);
        rest.iter().any(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b';' | 0))
    };
    has(text, b"write") || has(text, b"read_only") || may_end_transaction(text) && goes_on()
}

/// Whether a text may end a transaction. Any text with such a word is taken for one that does, also inside of another word or of a value.
#[must_use]
pub fn may_end_transaction(text: &[u8]) -> bool {
    [&b"commit"[..], b"rollback", b"abort", b"end", b"prepare"].iter().any(|word| has(text, word))
}

fn has(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ReadNames {
        let mut names = ReadNames::default();
        for (name, is_volatile) in [
            ("lower", false),
            ("count", false),
            ("now", false),
            ("random", true),
            ("nextval", true),
            ("max", false),
            ("left", false),
            ("varchar", false),
        ] {
            names.add_function(name, is_volatile, true);
        }
        names.add_function("tax", false, false);
        names.add_function("bill", true, false);
        names.keep("t_id_seq");
        names.keep("counting_view");
        names
    }

    fn of(text: &str) -> Reads {
        reads(text.as_bytes(), Dialect::default(), Some(&names()))
    }

    #[test]
    fn a_query_that_calls_only_what_reads_is_proven() {
        for text in [
            "select 1",
            "SELECT * FROM orders WHERE id = $1",
            "select a, \"Name\" from t where b in (1, 2) and (c = 'x' or d is not null) order by e limit (3) offset 2;",
            "select lower(a), count(*) filter (where b) over (partition by c) from t group by (d) having max(b) > 1",
            "with x (a, b) as (select 1, 2) select * from x join y using (a) where exists (select from z)",
            "(select 1) union all (select 2)",
            "values (1), (2)",
            "table t",
            "select cast(a as numeric(10, 2)), b::varchar(3), coalesce(c, 'd'), tax(e) from t as u(a, b)",
            "-- a comment\nselect /* into */ now(), 'insert; delete' from t",
            "select left(a, 1) from t left join u on (true) where c between (1) and (2)",
            "select substring(a from 1 for 2) from t",
            "select relname from pg_catalog.pg_class where relkind = 'r'",
            "select \"update\" from t",
        ] {
            assert_eq!(of(text), Reads::Proven, "{text}");
        }
    }

    #[test]
    fn what_may_write_or_differs_on_a_replica_is_not() {
        for text in [
            "insert into t values (1)",
            "update t set a = 1",
            "with x as (delete from t returning *) select * from x",
            "select * into u from t",
            "select * from t for update",
            "select * from t for no key update",
            "select * from t for share of t",
            "select * from t for key share",
            "select nextval('t_id_seq')",
            "select random()",
            "select bill(1)",
            "select \"bill\"(1)",
            "select (t).bill from t",
            "select unknown_function(1)",
            "select public.unknown_function(1)",
            "select \"select\"(1)",
            "select last_value from t_id_seq",
            "select * from counting_view",
            "select * from Counting_View",
            "select * from pg_stat_activity",
            "select * from pg_locks",
            "select 1; select 2",
            "explain select 1",
            "show search_path",
            "set x = 1",
            "fetch 1 from c",
            "execute a",
            "copy t to stdout",
            "call p()",
            "select U&\"d\\0061ta\" from t",
            "select 'not ended",
            "",
            ";",
            "commit",
            "begin",
        ] {
            assert_eq!(of(text), Reads::No, "{text}");
        }
    }

    #[test]
    fn a_position_in_the_log_is_asked_for() {
        for text in ["SHOW trunkline.lsn", " show Trunkline . LSN ;", "-- why\nshow trunkline.lsn"] {
            assert_eq!(reads(text.as_bytes(), Dialect::default(), None), Reads::ShowsPosition, "{text}");
        }
        for text in ["show trunkline.lsns", "show trunkline", "show trunkline.lsn; select 1", "show trunkline.lsn.x"] {
            assert_eq!(reads(text.as_bytes(), Dialect::default(), None), Reads::No, "{text}");
        }
    }

    #[test]
    fn operators_are_not_seen_in_a_text() {
        let mut names = names();
        names.has_volatile_operators();
        assert_eq!(reads(b"select 1", Dialect::default(), Some(&names)), Reads::No);
    }

    #[test]
    fn without_knowledge_only_what_is_said_counts() {
        let of = |text: &str| reads(text.as_bytes(), Dialect::default(), None);
        assert_eq!(of("select 1"), Reads::No);
        for text in [
            "/* trunkline: replica */ select f()",
            " /*trunkline:replica*/select 1; select 2",
            "/* trunkline : replica */ begin",
        ] {
            assert_eq!(of(text), Reads::ForReplica, "{text}");
        }
        assert_eq!(of("/* trunkline: primary */ select 1"), Reads::ForPrimary);
        for text in [
            "/* trunkline: replicas */ select 1",
            "select 1 /* trunkline: replica */",
            "/* replica */ select 1",
            "/* trunkline: replica",
        ] {
            assert_eq!(of(text), Reads::No, "{text}");
        }
    }

    #[test]
    fn a_transaction_says_at_its_begin_what_it_is() {
        for (text, expected) in [
            ("begin read only", Reads::BeginsReadOnly),
            ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;", Reads::BeginsReadOnly),
            ("start transaction read only", Reads::BeginsReadOnly),
            ("begin isolation level serializable read only", Reads::NeedsPrimary),
            ("begin read write", Reads::NeedsPrimary),
            ("begin", Reads::No),
            ("begin; select 1", Reads::No),
            ("listen a", Reads::NeedsPrimary),
            ("notify a", Reads::NeedsPrimary),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_in_an_encoding_that_hides_bytes_is_not_proven() {
        let dialect = Dialect { encoding: Encoding::Sjis, ..Dialect::default() };
        assert_eq!(reads(b"select 1", dialect, Some(&names())), Reads::No);
    }

    #[test]
    fn what_may_write_behind_a_promise_to_read_is_seen() {
        for text in [
            "set transaction READ WRITE",
            "set local transaction_read_only to off",
            "reset Transaction_Read_Only",
            "commit; insert into t values (1)",
            "select 1; ROLLBACK; update t set a = 1",
        ] {
            assert!(may_write_after_all(text.as_bytes()), "{text}");
        }
        for text in ["begin read only; select 1", "commit", "commit;", "Rollback ; \n", "select 1; select 2", ""] {
            assert!(!may_write_after_all(text.as_bytes()), "{text}");
        }
        for (text, is_end) in [("COMMIT", true), ("end", true), ("prepare transaction 'a'", true), ("select 1", false)]
        {
            assert_eq!(may_end_transaction(text.as_bytes()), is_end, "{text}");
        }
    }
}
