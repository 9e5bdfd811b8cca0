//! What a database says of its names: which functions only read, and which relations a replica must not be asked for.
//!
//! Always true: a function is known to read only if the catalog of a server has said so of all functions with its name.
//! Not here: how a text is read (`reads`), how the catalog is asked (`control`).

use std::collections::{BTreeMap, BTreeSet};

/// What is known of the names of a database. The default knows nothing: then no call of a function only reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadNames {
    functions: BTreeMap<Box<[u8]>, Function>,
    /// Relations whose rows differ on a replica, or which do more than read.
    kept: BTreeSet<Box<[u8]>>,
    has_foreign_kept: bool,
    /// What operators and casts do is not seen in a text.
    has_volatile_operators: bool,
}

/// All functions of one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Function {
    /// One of them may write, or answers something else on a replica.
    is_volatile: bool,
    /// One of them is no function of PostgreSQL.
    is_foreign: bool,
}

impl ReadNames {
    /// Adds a function. `is_own` says that it is one of PostgreSQL's own (schema `pg_catalog`).
    pub fn add_function(&mut self, name: &str, is_volatile: bool, is_own: bool) {
        let known = self.functions.entry(name.as_bytes().into()).or_default();
        known.is_volatile |= is_volatile || is_own && tells_of_server(name);
        known.is_foreign |= !is_own;
    }

    /// Adds a relation or a domain that a replica must not be asked for.
    pub fn keep(&mut self, name: &str) {
        self.has_foreign_kept |= !name.is_ascii();
        self.kept.insert(name.as_bytes().into());
    }

    /// The database has an operator or a cast that does more than read.
    pub fn has_volatile_operators(&mut self) {
        self.has_volatile_operators = true;
    }

    /// How many names are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.functions.len() + self.kept.len()
    }

    /// Whether no text is known to do more than its names say.
    pub(crate) fn are_telling(&self) -> bool {
        !self.has_volatile_operators
    }

    /// Whether every function of this name only reads; `None` if there is none.
    pub(crate) fn only_reads(&self, name: &[u8]) -> Option<bool> {
        self.functions.get(name).map(|function| !function.is_volatile)
    }

    /// Whether `row.name` may call a function that does more than read (PostgreSQL manual, "Using Functions on Composite Types").
    pub(crate) fn acts_as_column(&self, name: &[u8]) -> bool {
        self.functions.get(name).is_some_and(|function| function.is_volatile && function.is_foreign)
    }

    /// Whether a replica must not be asked for a relation or type of this name. How characters beyond ASCII are folded, and in which
    /// encoding they come, is up to the server: names with such characters all match.
    pub(crate) fn is_kept(&self, name: &[u8]) -> bool {
        if !name.is_ascii() {
            return self.has_foreign_kept;
        }
        self.kept.contains(name) || name.starts_with(b"pg_") && !CATALOGS.contains(&name)
    }
}

/// Whether a function of PostgreSQL tells something of its server or its session, so that the primary's answer is meant.
fn tells_of_server(name: &str) -> bool {
    let is_of_server = ["pg_", "txid_", "inet_"].iter().any(|prefix| name.starts_with(prefix));
    is_of_server && !OF_CATALOG.contains(&name) || name == "current_setting" || name == "version"
}

/// Functions whose names begin with `pg_` and which read nothing but the catalog.
const OF_CATALOG: [&str; 22] = [
    "pg_char_to_encoding",
    "pg_client_encoding",
    "pg_collation_is_visible",
    "pg_describe_object",
    "pg_encoding_to_char",
    "pg_function_is_visible",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_keywords",
    "pg_get_serial_sequence",
    "pg_get_triggerdef",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_has_role",
    "pg_table_is_visible",
    "pg_type_is_visible",
    "pg_typeof",
];
/// The tables and views of the catalog that are the same on a replica.
const CATALOGS: [&[u8]; 40] = [
    b"pg_aggregate",
    b"pg_am",
    b"pg_attrdef",
    b"pg_attribute",
    b"pg_auth_members",
    b"pg_authid",
    b"pg_cast",
    b"pg_catalog",
    b"pg_class",
    b"pg_collation",
    b"pg_constraint",
    b"pg_conversion",
    b"pg_database",
    b"pg_depend",
    b"pg_description",
    b"pg_enum",
    b"pg_event_trigger",
    b"pg_extension",
    b"pg_index",
    b"pg_indexes",
    b"pg_inherits",
    b"pg_language",
    b"pg_matviews",
    b"pg_namespace",
    b"pg_opclass",
    b"pg_operator",
    b"pg_opfamily",
    b"pg_partitioned_table",
    b"pg_policies",
    b"pg_policy",
    b"pg_proc",
    b"pg_range",
    b"pg_roles",
    b"pg_rules",
    b"pg_shdescription",
    b"pg_tables",
    b"pg_trigger",
    b"pg_type",
    b"pg_user",
    b"pg_views",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_functions_speaks_for_all() {
        let mut names = ReadNames::default();
        names.add_function("lower", false, true);
        names.add_function("f", false, false);
        assert_eq!(
            (names.only_reads(b"lower"), names.only_reads(b"f"), names.only_reads(b"g")),
            (Some(true), Some(true), None)
        );
        names.add_function("f", true, false);
        assert_eq!(names.only_reads(b"f"), Some(false));
        assert!(names.acts_as_column(b"f") && !names.acts_as_column(b"lower"));
        names.add_function("lower", true, false);
        assert_eq!(names.only_reads(b"lower"), Some(false), "an overloaded function may be meant");
        names.add_function("random", true, true);
        assert!(!names.acts_as_column(b"random"), "no function of PostgreSQL that writes takes a row");
    }

    #[test]
    fn what_tells_of_its_server_is_asked_of_the_primary() {
        let mut names = ReadNames::default();
        let told =
            ["pg_backend_pid", "inet_server_addr", "txid_current_snapshot", "current_setting", "pg_stat_get_activity"];
        for name in told {
            names.add_function(name, false, true);
            assert_eq!(names.only_reads(name.as_bytes()), Some(false), "{name}");
        }
        for name in ["pg_get_indexdef", "format_type", "now"] {
            names.add_function(name, false, true);
            assert_eq!(names.only_reads(name.as_bytes()), Some(true), "{name}");
        }
        names.add_function("pg_mine", false, false);
        assert_eq!(names.only_reads(b"pg_mine"), Some(true), "what the owner of a function says of it counts");
    }

    #[test]
    fn relations_of_the_server_and_those_that_were_named_stay() {
        let mut names = ReadNames::default();
        names.keep("t_id_seq");
        for (name, is_kept) in [
            (&b"t_id_seq"[..], true),
            (b"t", false),
            (b"pg_class", false),
            (b"pg_stat_activity", true),
            (b"pg_locks", true),
            ("\u{e9}".as_bytes(), false),
        ] {
            assert_eq!(names.is_kept(name), is_kept, "{}", String::from_utf8_lossy(name));
        }
        names.keep("\u{e4}");
        assert!(names.is_kept("\u{e9}".as_bytes()), "it may be the same in another encoding");
    }
}
