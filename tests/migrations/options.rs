//! The command line of `cargo xtask migrations`.

use tests::choice::Menu;

use crate::stage::DIRECT;
use crate::tools::TOOLS;
use crate::trial::CASES;

/// The names that can be selected.
pub(crate) fn menu() -> Menu {
    let programs = TOOLS.iter().map(|tool| tool.program.name).collect();
    Menu { programs, cases: CASES.to_vec(), direct: DIRECT, folder: "migrations", usage: USAGE }
}

const USAGE: &str = "\
usage: cargo xtask migrations [TOOL ...] [--case NAME] [--stage NAME] [--set LINE] [--strict]

  TOOL           golang-migrate/pq, golang-migrate/pgx, flyway, flyway/session-lock,
                 liquibase, alembic, django, rails; all without a name
  --case NAME    only this case: race, killed
  --stage NAME   only stages with this in their name: pool-of-8, pool-of-6
  --set LINE     a line more for the pooler's configuration, such as session_state=pgbouncer
  --strict       a tool that cannot be had here is a failure";
