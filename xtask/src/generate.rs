//! `cargo xtask gen`: pages written from the catalogs in the code, and from scripts.
//!
//! Always true: a generated page is never edited by hand; `--check` fails when one is not what the code would write.
//! Not here: the texts themselves, which are in the catalogs.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Whether the pages are written or only compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Write,
    Check,
}

impl Mode {
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Result<Mode, String> {
        match arguments {
            [] => Ok(Mode::Write),
            [only] if only == "--check" => Ok(Mode::Check),
            _ => Err("usage: cargo xtask gen [--check]".to_owned()),
        }
    }
}

pub(crate) fn run(root: &Path, mode: Mode) -> Result<(), String> {
    for (path, write) in PAGES {
        page(&root.join(path), path, &write(root)?, mode)?;
    }
    Ok(())
}

fn page(file: &Path, path: &str, text: &str, mode: Mode) -> Result<(), String> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if mode == Mode::Check {
        return Err(format!("{path}:1: not what the catalog says: run `cargo xtask gen` and commit the page"));
    }
    let folder = file.parent().ok_or(format!("{path} has no folder"))?;
    fs::create_dir_all(folder).and_then(|()| fs::write(file, text)).map_err(|error| format!("{path}: {error}"))?;
    println!("wrote {path}");
    Ok(())
}

/// A path from the root, and the function that writes the page.
type Page = (&'static str, fn(&Path) -> Result<String, String>);

const PAGES: [Page; 10] = [
    ("docs/reference/settings.md", settings),
    ("docs/reference/errors.md", errors),
    ("docs/reference/console.md", console),
    ("docs/reference/metrics.md", metrics),
    ("docs/reference/lint.md", lint),
    ("docs/reference/doctor.md", doctor),
    ("docs/operating/habits.md", habits),
    ("docs/operating/prometheus/trunkline.rules.yml", |_| Ok(control::alert_rules())),
    ("docs/operating/prometheus/trunkline.rules.test.yml", |_| Ok(control::alert_tests())),
    ("docs/operating/grafana/trunkline.json", |_| Ok(control::board())),
];

fn settings(_: &Path) -> Result<String, String> {
    Ok(format!("{SETTINGS_HEAD}{}{RATE_LIMITS_HEAD}{}", config::reference(), config::rate_limits_reference()))
}

fn errors(_: &Path) -> Result<String, String> {
    let (faults, refusals) = (protocol::fault::reference(), control::errors_reference());
    Ok(format!("{ERRORS_HEAD}{faults}{REFUSALS_HEAD}{refusals}"))
}

fn console(_: &Path) -> Result<String, String> {
    Ok(format!("{CONSOLE_HEAD}{}", control::reference()))
}

fn metrics(_: &Path) -> Result<String, String> {
    let (metrics, alerts) = (control::metrics_reference(), control::alerts_reference());
    Ok(format!("{METRICS_HEAD}{metrics}{ALERTS_HEAD}{alerts}"))
}

fn lint(_: &Path) -> Result<String, String> {
    Ok(format!("{LINT_HEAD}{}{LINT_OPTIONS_HEAD}{}", ops::lint::reference(), ops::lint::options_reference()))
}

fn doctor(_: &Path) -> Result<String, String> {
    Ok(format!("{DOCTOR_HEAD}{}", ops::doctor::reference()))
}

fn habits(root: &Path) -> Result<String, String> {
    Ok(format!("{HABITS_HEAD}{}", habits::page(&crate::habits::read(root)?)))
}

const METRICS_HEAD: &str = "\
# Metrics

<!-- Written by `cargo xtask gen` from the catalog in crates/control. Not edited by hand. -->

The metrics of `/metrics`, if `http_port` is set: see [Watching](../operating/watching.md). The format is OpenMetrics if the
client asks for it, otherwise the older text format of Prometheus. Names do not change between releases. The values of labels
are the names of databases, users and applications, and words listed here; they never contain values of statements.

";

const ALERTS_HEAD: &str = "
## Alerts

The rules of [trunkline.rules.yml](../operating/prometheus/trunkline.rules.yml). Each is tested with series for which it fires and others for which it
does not (`promtool test rules`). A critical alert needs action at once, a warning on the next working day.

";

const LINT_HEAD: &str = "\
# Rules of `trunkline lint`

<!-- Written by `cargo xtask gen` from the catalog in crates/ops. Not edited by hand. -->

What each rule judges: see [Judging configurations](../operating/lint.md) for how to run it, read its report and mute a rule. Settings have
PgBouncer's names; Odyssey's are meant where they have another one.

";

const DOCTOR_HEAD: &str = "\
# Rules of `trunkline doctor`

<!-- Written by `cargo xtask gen` from the catalog in crates/ops. Not edited by hand. -->

What each rule judges: see [Looking at what runs](../operating/doctor.md) for how to run it and read its report.

";

const LINT_OPTIONS_HEAD: &str = "
## What no file says

Rules that need one of these are not evaluated without it. Times are in seconds unless the option says otherwise.

";

const ERRORS_HEAD: &str = "\
# Errors

<!-- Written by `cargo xtask gen` from the catalogs in crates/protocol and crates/control. Not edited by hand. -->

The errors that a client gets from the pooler itself. Texts and codes are PgBouncer's where PgBouncer has the error; some
errors also have a `DETAIL` and a `HINT`. Words in braces stand for values. Errors of a server, also at a login, are passed on
with their code and text.

## FATAL: the connection ends

";

const REFUSALS_HEAD: &str = "
One more is sent as an ERROR before the connection ends: `unsupported packet type for admin console: N` (`08P01`), when the
console gets a message that no driver sends there.

## ERROR, to a client that waits for a server

| code | text | when |
|---|---|---|
| `57014` | `canceling statement due to user request` | The request was cancelled while the client waited for a server. |

## ERROR, on the console

";

const CONSOLE_HEAD: &str = "\
# The console

<!-- Written by `cargo xtask gen` from the catalogs in crates/control. Not edited by hand. -->

The console is the database `pgbouncer`: `psql -p 6432 pgbouncer`. Users in `admin_users` may run all commands, users in
`stats_users` those that only show something. A query contains one command, in upper or lower case, with or without a
semicolon; names with unusual characters are written in double quotes. `SELECT` is a synonym of `SHOW`. The extended protocol
works, in text and binary formats, without parameters. Errors are listed in [Errors](errors.md).

";

const HABITS_HEAD: &str = "\
# What drivers send by themselves

<!-- Written by `cargo xtask gen` from the scripts in tests/habits. Not edited by hand. -->

Drivers, pools, ORMs and frameworks send more than the application's statements: settings when they connect, a query that checks whether
the connection is alive, a reset when it is given back, savepoints. Each row is one of these, as found in the source of that version, or of a
commit if there is no release. Each has a script for pgbench that you can run: `pgbench -f tests/habits/NAME.sql`, on the tables of
[setup.sql](../../tests/habits/setup.sql). pgbench sends all statements of a script in one form. Tests and the bench send each in the form in
which its driver does (protocol, names, row limits), by the marks in the script.

In transaction mode all of them work as on a direct connection, with `session_state = follow`, which is the default. `make test` runs each
of them with more clients than servers, and all of them mixed, and compares answers, settings, locks, prepared statements and cursors with
those of direct connections. What each costs compared with PgBouncer, itself and in PostgreSQL, and how many messages PostgreSQL gets for it, is measured by
`make bench`, or for one of them by `cargo xtask bench --only habits/NAME --no-write --texts`.

\"When\" is connect (once for each connection), checkout and release (when a pool gives a connection out or takes it back), transaction or
statement (around each). The table says which of them keep their server between transactions; the others do not.

";

const SETTINGS_HEAD: &str = "\
# Settings

<!-- Written by `cargo xtask gen` from the catalog in crates/config. Not edited by hand. -->

The settings of the section `[pgbouncer]`, or `[trunkline]`, which means the same: first PgBouncer's, in the order of its
`SHOW CONFIG`, then our own, from `workers` on. The keys of `[databases]`, `[users]` and `[peers]` are PgBouncer's, and these of ours:
`replication_pool_size`, `session_state`, `session_policy`, `session_unseen`, `max_pinned_servers` and `pinned_server_timeout` of a
database, `session_policy` of a user, `read_routing` of a database or a user, and `proxy_protocol` of a database or a peer.

`proxy_protocol` is the PROXY protocol header with which each connection to a host of the database, or to the peer, begins: `off`
(default), `v1` or `v2`. See [behind a proxy](../operating/behind-a-proxy.md).

";

const RATE_LIMITS_HEAD: &str = "
## `[rate_limits]`

Limits how many logins and transactions are admitted: one rule on each line, at most 32, as in

```ini
[rate_limits]
storm = events=logins by=address rate=20 burst=100
api = events=transactions by=user,database rate=500 burst=1000 action=reject
reports = events=transactions user=reports rate=10
```

A client to which several rules apply needs a token of each. `SHOW RATE_LIMITS` shows what the rules have done. On the console,
`SET rate_limits.api = 'events=transactions by=user rate=900'` makes or replaces a rule until the next reload, and
`SET rate_limits.api = ''` removes it. What is counted when, and which errors clients get, is explained in
[decision 0016](../decisions/0016-rate-limits.md).

";

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("trunkline-gen-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_stale_page_is_found_and_writing_mends_it() {
        let folder = scratch("stale");
        let file = folder.join("a.md");
        assert!(page(&file, "a.md", "new", Mode::Check).is_err_and(|error| error.starts_with("a.md:1:")));
        assert_eq!(page(&file, "a.md", "new", Mode::Write), Ok(()));
        assert_eq!(page(&file, "a.md", "new", Mode::Check), Ok(()));
        assert!(page(&file, "a.md", "newer", Mode::Check).is_err());
        fs::remove_dir_all(folder).expect("the folder is ours");
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        assert_eq!(Mode::from_arguments(&["--check".into()]), Ok(Mode::Check));
        assert!(Mode::from_arguments(&["--chekc".into()]).is_err());
    }
}
