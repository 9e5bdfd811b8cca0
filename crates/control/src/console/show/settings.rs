//! `SHOW CONFIG` and `SHOW VERSION`.

use config::Shown;

use super::view::{NOTHING, Subject, View};
use crate::PGBOUNCER_VERSION;
use crate::console::table::{Cell, Column, text};

pub(super) const CONFIG: Subject = Subject {
    name: "CONFIG",
    doc: "Every setting with its value, its default, and whether a change takes effect without a restart.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[Column::text("key"), Column::text("value"), Column::text("default"), Column::text("changeable")],
    rows: |view: &View<'_>| view.settings.show().into_iter().map(setting).collect(),
};

pub(super) const VERSION: Subject = Subject {
    name: "VERSION",
    doc: "The version of PgBouncer that Trunkline is compatible with. Trunkline's own is in the log (`process up`), in the metric `trunkline_build_info`, and printed by `trunkline --version`.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[Column::text("version")],
    // One row, as from PgBouncer: programs read it as a single value.
    rows: |_: &View<'_>| vec![vec![text(format!("PgBouncer {PGBOUNCER_VERSION}"))]],
};

fn setting(shown: Shown) -> Vec<Cell> {
    let changeable = if shown.changeable { "yes" } else { "no" };
    vec![text(shown.key), shown.value, shown.default.map(str::to_owned), text(changeable)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(heads("CONFIG"), "key s, value s, default s, changeable s");
        assert_eq!(heads("VERSION"), "version s");
    }

    #[test]
    fn settings_are_shown_with_their_defaults() {
        let settings = settings("[pgbouncer]\nauth_type=any\nserver_idle_timeout=30\n");
        let shown = lines(&table_of("CONFIG", &settings, "", &[]));
        for line in ["server_idle_timeout|30|600|yes", "auth_user|NULL|NULL|yes", "listen_port|6432|6432|no"] {
            assert!(shown.iter().any(|shown| shown == line), "{line} is not in {shown:#?}");
        }
        assert_eq!(lines(&table_of("VERSION", &settings, "", &[])), ["PgBouncer 1.25.2"]);
    }
}
