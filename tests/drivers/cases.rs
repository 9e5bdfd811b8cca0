//! The names of the cases that every program has to report.
//!
//! Always true: a program that does not report or know a case has failed it; a program declares by name what its driver
//! cannot do, with the reason.

/// In the order in which they are run.
pub(crate) const CASES: [&str; 36] = [
    "connect_tcp",
    "connect_unix",
    "auth_md5",
    "auth_scram",
    "auth_scram_plus",
    "auth_wrong",
    "tls_require",
    "tls_verify_full",
    "tls_wrong_name",
    "tls_certificate",
    "prepared_shared",
    "prepared_many",
    "prepared_deallocate",
    "prepared_after_error",
    "unnamed_over_syncs",
    "pipeline",
    "pipeline_error",
    "cursor",
    "copy_in",
    "copy_out",
    "copy_failed",
    "copy_abandoned",
    "cancel_timeout",
    "cancel_by_hand",
    "error_fields",
    "error_in_transaction",
    "transaction",
    "savepoint",
    "big_value",
    "notice",
    "types",
    "parameters",
    "close_midway",
    "server_gone",
    "console_simple",
    "console_extended",
];
