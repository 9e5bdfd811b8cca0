//! The commands that a console has, according to its `SHOW HELP`.
//!
//! Always true: a console without help is assumed to have every command; it refuses those that it does not have.
//! Not here: asking for the help (`console`).

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The commands that begin with `SHOW`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Commands(BTreeSet<String>);

impl Commands {
    /// Parses lines such as `SHOW POOLS|CLIENTS`.
    pub(crate) fn read(help: &str) -> Self {
        let lists = help.lines().filter_map(|line| line.trim().strip_prefix("SHOW "));
        let names = lists.flat_map(|list| list.split('|')).take(COMMANDS_MAX);
        Self(names.map(|name| format!("SHOW {}", name.trim())).collect())
    }

    /// Whether the console has a command: asking for an unknown one leaves a line in the pooler's log.
    pub(crate) fn has(&self, command: &str) -> bool {
        self.0.is_empty() || self.0.contains(command)
    }

    /// The command that shows all columns of a table: Trunkline shows its own only to those who ask for them, and no other
    /// console knows the word.
    pub(crate) fn with_all_columns<'c>(&self, command: &'c str) -> Cow<'c, str> {
        let extended = format!("{command} EXTENDED");
        if self.0.contains(&extended) { Cow::Owned(extended) } else { Cow::Borrowed(command) }
    }
}

/// No console has more commands.
const COMMANDS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_commands_in_lines_and_lists() {
        let commands = Commands::read("\n\tSHOW HELP|CONFIG|POOLS\n\tSHOW STATS|TOTALS\n\tSET key = arg\n\tKILL <db>");
        assert!(commands.has("SHOW POOLS") && commands.has("SHOW TOTALS") && !commands.has("SHOW WAITS"));
        assert!(Commands::read("").has("SHOW WAITS"));
    }

    #[test]
    fn all_columns_are_asked_for_where_the_help_says_how() {
        let commands = Commands::read("\n\tSHOW POOLS|LISTS\n\tSHOW DATABASES EXTENDED|POOLS EXTENDED");
        assert_eq!(commands.with_all_columns("SHOW POOLS"), "SHOW POOLS EXTENDED");
        assert_eq!(commands.with_all_columns("SHOW LISTS"), "SHOW LISTS");
        assert_eq!(Commands::read("").with_all_columns("SHOW POOLS"), "SHOW POOLS");
    }
}
