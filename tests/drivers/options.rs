//! The command line of `cargo xtask drivers`.

use tests::choice::Menu;

use crate::cases::CASES;
use crate::drivers::DRIVERS;
use crate::stage::DIRECT;

/// The names that can be selected.
pub(crate) fn menu() -> Menu {
    let programs = DRIVERS.iter().map(|driver| driver.name).collect();
    Menu { programs, cases: CASES.to_vec(), direct: DIRECT, folder: "drivers", usage: USAGE }
}

const USAGE: &str = "\
usage: cargo xtask drivers [DRIVER ...] [--case NAME] [--stage NAME] [--set LINE] [--strict]

  DRIVER         psycopg, asyncpg, psycopg2, pgx, pq, pgjdbc, node-postgres,
                 tokio-postgres, sqlx; all without a name
  --case NAME    only this case; may be given again
  --stage NAME   only stages with this in their name: transaction, session, io_uring, epoll
  --set LINE     a line more for the pooler's configuration; may be given again
  --strict       a driver that cannot be had here is a failure";
