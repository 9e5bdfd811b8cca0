//! Which of PostgreSQL's own functions and names matter to a session.
//!
//! Always true: a name that is not here touches nothing by itself.
//! Not here: functions of the database (`functions`), what a call's arguments say (`configured`).

use crate::dirty_state::DirtyState;
use crate::name_filter::NameFilter;

/// Whether a name with this first byte and length may be one of PostgreSQL's that matter, or is too long to be examined.
/// Few others pass.
pub(crate) fn may_matter(first: u8, length: usize) -> bool {
    FILTER.passes(first, length)
}

/// Whether it is one of these names, so that more than the name has to be examined.
pub(crate) fn matters(name: &[u8]) -> bool {
    EXAMINED.contains(&name) || !known_name(name).is_nothing() || unlocks(name)
}

/// What PostgreSQL's own functions and schemas with this name touch.
pub(crate) fn known_name(name: &[u8]) -> DirtyState {
    if name.starts_with(TEMPORARY_SCHEMAS) {
        return DirtyState::TEMPORARY;
    }
    KNOWN.iter().find(|(known, _)| *known == name).map_or(DirtyState::NOTHING, |(_, touches)| *touches)
}

/// Whether this function releases advisory locks.
pub(crate) fn unlocks(name: &[u8]) -> bool {
    UNLOCKERS.contains(&name)
}

/// Which names may matter, by their first two bytes and their length.
pub(crate) static FILTER: NameFilter =
    NameFilter::NONE.with_all(&EXAMINED).with_known(&KNOWN).with_all(&UNLOCKERS).with_prefix(TEMPORARY_SCHEMAS);

/// The word behind which a statement may create a temporary table.
pub(crate) const INTO: &[u8] = b"into";
/// Names of which more has to be read: what stands beside them.
const EXAMINED: [&[u8]; 3] = [b"set_config", INTO, b"pg_settings"];
/// What the schemas of temporary tables begin with.
const TEMPORARY_SCHEMAS: &[u8] = b"pg_temp";
/// Functions, and what they touch. Those of XML and text search execute their arguments as SQL.
const KNOWN: [(&[u8], DirtyState); 14] = [
    (b"pg_advisory_lock", DirtyState::LOCKS),
    (b"pg_advisory_lock_shared", DirtyState::LOCKS),
    (b"pg_try_advisory_lock", DirtyState::LOCKS),
    (b"pg_try_advisory_lock_shared", DirtyState::LOCKS),
    (b"pg_create_physical_replication_slot", DirtyState::SLOTS),
    (b"pg_create_logical_replication_slot", DirtyState::SLOTS),
    (b"pg_copy_physical_replication_slot", DirtyState::SLOTS),
    (b"pg_copy_logical_replication_slot", DirtyState::SLOTS),
    (b"pg_drop_replication_slot", DirtyState::SLOTS),
    (b"query_to_xml", DirtyState::ANYTHING),
    (b"query_to_xmlschema", DirtyState::ANYTHING),
    (b"query_to_xml_and_xmlschema", DirtyState::ANYTHING),
    (b"ts_stat", DirtyState::ANYTHING),
    (b"ts_rewrite", DirtyState::ANYTHING),
];
/// Functions that release what those functions have locked.
const UNLOCKERS: [&[u8]; 3] = [b"pg_advisory_unlock", b"pg_advisory_unlock_shared", b"pg_advisory_unlock_all"];
