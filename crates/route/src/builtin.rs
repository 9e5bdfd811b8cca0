//! Which of PostgreSQL's own functions and names matter to a session.
//!
//! Always true: a name that is not here touches nothing by itself.
//! Not here: functions of the database (`functions`), what a call's arguments say (`configured`).

use crate::dirty_state::DirtyState;
use crate::words::NAME_BYTES_MAX;

/// Whether a name with this first byte and length may be one of PostgreSQL's that matter, or is too long to be examined.
/// Few others pass.
pub(crate) const fn may_matter(first: u8, length: usize) -> bool {
    match (first | 0x20, length) {
        (b's', 10) | (b'i', 4) | (b'p', 7..) | (b'q', 12..) | (b't', 7 | 10) => true,
        _ => length > NAME_BYTES_MAX,
    }
}

/// Whether it is one of these names, so that more than the name has to be examined.
pub(crate) fn matters(name: &[u8]) -> bool {
    matches!(name, b"set_config" | b"into" | b"pg_settings") || !known_name(name).is_nothing() || unlocks(name)
}

/// What PostgreSQL's own functions and schemas with this name touch.
pub(crate) fn known_name(name: &[u8]) -> DirtyState {
    match name {
        _ if !matches!(name.first(), Some(b'p' | b'q' | b't')) => DirtyState::NOTHING,
        _ if name.starts_with(b"pg_temp") => DirtyState::TEMPORARY,
        b"pg_advisory_lock" | b"pg_advisory_lock_shared" | b"pg_try_advisory_lock" | b"pg_try_advisory_lock_shared" => {
            DirtyState::LOCKS
        }
        b"pg_create_physical_replication_slot"
        | b"pg_create_logical_replication_slot"
        | b"pg_copy_physical_replication_slot"
        | b"pg_copy_logical_replication_slot"
        | b"pg_drop_replication_slot" => DirtyState::SLOTS,
        // These execute their arguments as SQL.
        b"query_to_xml" | b"query_to_xmlschema" | b"query_to_xml_and_xmlschema" | b"ts_stat" | b"ts_rewrite" => {
            DirtyState::ANYTHING
        }
        _ => DirtyState::NOTHING,
    }
}

/// Whether this function releases advisory locks.
pub(crate) fn unlocks(name: &[u8]) -> bool {
    UNLOCKERS.iter().any(|unlocks| unlocks.as_bytes() == name)
}

/// Functions that release what those functions have locked.
const UNLOCKERS: [&str; 3] = ["pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all"];
