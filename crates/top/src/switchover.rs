//! `trunkline switchover`: gives a console the order, and prints each step while it waits.
//!
//! Always true: the order is given once. Ctrl-C cancels it, and the command waits for what becomes of it; a second one leaves.
//! Not here: the switchover (the pooler), the options of the connection (`options`).

use std::ffi::OsString;
use std::io::Write as _;

use lexopt::{Arg, Parser, ValueExt};
use tokio::runtime::Builder;

use crate::console::{Console, Ordered};
use crate::options::{ConnectionArg, TopOptions, said};
use crate::{Listening, console_login};

/// The options of `trunkline switchover`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchoverOptions {
    console: TopOptions,
    cluster: Option<String>,
    to: Option<String>,
}

impl SwitchoverOptions {
    /// Parses the arguments after `trunkline switchover`.
    ///
    /// # Errors
    /// An argument is unknown or out of range; the text is for the person who typed it.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let hint = |text| format!("trunkline switchover: {text}\nTry \"trunkline switchover --help\".");
        Self::read(Parser::from_args(args)).map_err(hint)
    }

    fn read(mut parser: Parser) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(arg) = parser.next().map_err(said)? {
            match arg {
                Arg::Long("cluster") => options.cluster = Some(name(&mut parser)?),
                Arg::Long("to") => options.to = Some(name(&mut parser)?),
                Arg::Short('?') | Arg::Long("help") => options.console.wants_help = true,
                arg => {
                    let arg = ConnectionArg::of(arg)?;
                    options.console.take(arg, &mut parser)?;
                }
            }
        }
        Ok(options)
    }

    /// The configuration file that has to be read to find out where the pooler listens.
    #[must_use]
    pub fn config_file(&self) -> Option<&str> {
        self.console.config_file()
    }

    /// Whether to print [`SWITCHOVER_USAGE`] only.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.console.wants_help
    }

    /// The command for the console.
    fn command(&self) -> String {
        let mut command = "SWITCHOVER".to_owned();
        if let Some(cluster) = &self.cluster {
            command.push_str(&format!(" \"{}\"", cluster.replace('"', "\"\"")));
        }
        if let Some(to) = &self.to {
            command.push_str(&format!(" TO '{}'", to.replace('\'', "''")));
        }
        command
    }
}

/// A name, which is never empty.
fn name(parser: &mut Parser) -> Result<String, String> {
    let name = parser.value().map_err(said)?.string().map_err(said)?;
    if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(name) }
}

/// Switches over. `listening` comes from the configuration file, if the options name one.
///
/// # Errors
/// The console cannot be reached, or there was no switchover, and why.
pub fn switch_over(options: &SwitchoverOptions, listening: Option<&Listening>) -> Result<(), String> {
    let login = console_login(&options.console, listening)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut console = Console::reach(&login).await?;
        let mut print = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
        let done = console.order(&options.command(), &login, &mut print).await;
        console.leave().await;
        match done? {
            Ordered::Done => Ok(()),
            Ordered::Refused(why) => Err(why),
        }
    })
}

/// The output of `trunkline switchover --help`.
pub const SWITCHOVER_USAGE: &str = "\
Usage: trunkline switchover [OPTION]... [URL | CONNINFO | CONFIG_FILE]

Makes another member of a cluster its primary, while the clients of the pooler are held: they notice a pause, and no error.
The order is given to the console of a running pooler, as one of admin_users; the exit status is 0 when the new primary
accepts writes. If a step fails, clients go on at whichever host proves to be the primary. Ctrl-C gives up, unless the
primary is being demoted by demote_command: that is carried through.

Which switchover:
      --cluster NAME    a cluster of [clusters] (not needed if there is only one)
      --to MEMBER       the new primary: its host and port as in SHOW CLUSTERS, or its name for Patroni
                        (default: the replica that has received most of the log)

Whose console, as for trunkline top:
  postgres://user@host:6432/pgbouncer     a URL as libpq takes it
  \"host=... port=... user=...\"            the same in libpq's other form
  /etc/trunkline/trunkline.ini            the configuration of a pooler on this machine, which says where it listens
  -h, --host HOST       a host, or the directory of a unix socket (default: PGHOST, or else the socket in
                        /var/run/postgresql or /tmp)
  -p, --port PORT       (default: PGPORT, or else 6432)
  -U, --username USER   (default: PGUSER, or else the user of the system)
  -d, --dbname NAME     the database of the console (default: pgbouncer)
  -?, --help            show this
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<SwitchoverOptions, String> {
        SwitchoverOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn the_order_names_the_cluster_and_the_member() {
        let command = |args: &[&str]| parse(args).expect("options").command();
        assert_eq!(command(&["-h", "db1"]), "SWITCHOVER");
        assert_eq!(command(&["--cluster", "a\"b", "--to=10.0.0.2:5432"]), "SWITCHOVER \"a\"\"b\" TO '10.0.0.2:5432'");
        assert_eq!(command(&["postgres://admin@h/pgbouncer", "--to", "o'node"]), "SWITCHOVER TO 'o''node'");
        assert_eq!(parse(&["/etc/a.ini"]).expect("options").config_file(), Some("/etc/a.ini"));
        assert!(parse(&["--help"]).expect("options").wants_help());
    }

    #[test]
    fn a_mistake_is_named_and_help_is_hinted_at() {
        for (args, wanted) in [
            (&["--once"][..], "--once"),
            (&["--to", ""], "a name is empty"),
            (&["-p", "0"], "-p takes a port"),
            (&["a", "b"], "one console at a time"),
        ] {
            let text = parse(args).expect_err("a mistake");
            assert!(text.contains(wanted) && text.contains("trunkline switchover --help"), "{text}");
        }
    }
}
