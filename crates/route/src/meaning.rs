//! Settings that decide how a text is read, and texts that change them for the rest of their transaction.
//!
//! Always true: where it is unknown which setting a text changes so, it may be one that matters.
//! Not here: what outlives the transaction (`classify`).

use crate::setting;
use crate::words::Words;

/// Whether a statement changes a setting that matters, at least until the end of its transaction: by `SET LOCAL`, or a
/// call of `set_config`.
pub(crate) fn sets_locally(words: &Words<'_>) -> bool {
    let calls = words.places(|first, length| first | 0x20 == b's' && length == SET_CONFIG.len());
    let mut calls = calls.filter(|&at| words.name(at).is_none_or(|name| name.bytes() == SET_CONFIG));
    let is_command = words.is(0, "set") && setting::is_local(words);
    let configures = |at: usize| setting::configured_name(words, at + 1).is_none_or(|name| decides_meaning(&name));
    is_command && names(words, 2) || calls.any(configures)
}

/// Whether the name behind `SET LOCAL` is one that matters.
fn names(words: &Words<'_>, at: usize) -> bool {
    let is_dotted = words.is_symbol(at + 1, b".");
    !is_dotted && words.unquoted(at).is_none_or(|name| decides_meaning(&name.to_ascii_lowercase()))
}

/// Whether a setting may change what a statement means. Settings with a dot are for programs and functions; the others
/// that do not matter concern time, memory, plans, and what is written where.
#[must_use]
pub fn decides_meaning(name: &str) -> bool {
    !name.contains('.')
        && !MEANINGLESS.contains(&name)
        && !MEANINGLESS_BY_PREFIX.iter().any(|prefix| name.starts_with(prefix))
}

/// Settings that change nothing about what a statement means (`pg_settings`).
const MEANINGLESS: [&str; 30] = [
    "application_name",
    "bytea_output",
    "client_connection_check_interval",
    "client_min_messages",
    "commit_delay",
    "commit_siblings",
    "constraint_exclusion",
    "cursor_tuple_fraction",
    "extra_float_digits",
    "from_collapse_limit",
    "hash_mem_multiplier",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "join_collapse_limit",
    "lock_timeout",
    "logical_decoding_work_mem",
    "maintenance_work_mem",
    "plan_cache_mode",
    "random_page_cost",
    "recursive_worktable_factor",
    "row_security",
    "seq_page_cost",
    "session_replication_role",
    "statement_timeout",
    "stats_fetch_consistency",
    "synchronous_commit",
    "temp_buffers",
    "temp_file_limit",
    "transaction_timeout",
    "work_mem",
];
const MEANINGLESS_BY_PREFIX: [&str; 15] = [
    "autovacuum_",
    "backend_",
    "cpu_",
    "debug_",
    "default_transaction_",
    "effective_",
    "enable_",
    "geqo",
    "jit",
    "log_",
    "max_parallel_",
    "min_parallel_",
    "parallel_",
    "track_",
    "vacuum_",
];

const SET_CONFIG: &[u8] = b"set_config";
