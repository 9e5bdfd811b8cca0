//! `SHOW STATE`: whether the traffic flows.

use super::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, text};

pub(super) const STATE: Subject =
    Subject { name: "STATE", parts: NOTHING, columns: &[Column::text("key"), Column::text("value")], rows };

/// Without PAUSE and SUSPEND there is but one state.
fn rows(_: &View<'_>) -> Vec<Vec<Cell>> {
    [("active", "yes"), ("paused", "no"), ("suspended", "no")].map(|(key, value)| vec![text(key), text(value)]).into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn it_is_active() {
        assert_eq!(heads("STATE"), "key s, value s");
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        assert_eq!(lines(&table_of("STATE", &settings, "", &[])), ["active|yes", "paused|no", "suspended|no"]);
    }
}
