//! Generates the reference page of the console from the catalogs.
//!
//! Always true: every console command is on the page.
//! Not here: the descriptions, which are beside the commands (`act`, `show`).

use super::table::Column;
use super::{PARAMETERS, act, show};

/// Returns the commands and their tables, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = "## Commands that change something\n\n| command | what it does |\n|---|---|\n".to_owned();
    for entry in act::CATALOG {
        page += &format!("| `{}` | {} |\n", entry.usage.replace('|', "\\|"), entry.doc);
    }
    page += "\n## SHOW\n\n| command | what it shows |\n|---|---|\n";
    page += "| `SHOW HELP` | All commands, as a notice. |\n";
    page += "| `SHOW` table `EXTENDED` | The table with our own columns too, which PgBouncer's table of that name does not have. |\n";
    for subject in show::CATALOG {
        page += &format!("| [`SHOW {}`](#{}) | {} |\n", subject.name, anchor(subject.name), subject.doc);
    }
    let parameters: Vec<_> = PARAMETERS.iter().map(|parameter| format!("`SHOW {}`", parameter.name)).collect();
    page += &format!(
        "| {} | Parameters that drivers query in every session; the values are constant. |\n",
        parameters.join(", ")
    );
    for subject in show::CATALOG {
        page += &format!("\n### {}\n\n| column | type | meaning |\n|---|---|---|\n", subject.name);
        subject.plain_columns().iter().for_each(|column| page += &row(subject.name, column));
        if subject.has_own_columns() {
            page += &format!(
                "\n`SHOW {} EXTENDED` also has:\n\n| column | type | meaning |\n|---|---|---|\n",
                subject.name
            );
            subject.own_columns().iter().for_each(|column| page += &row(subject.name, column));
        }
    }
    page
}

fn row(table: &str, column: &Column) -> String {
    let meaning = show::meanings::sentence(table, column.name);
    format!("| {} | {} | {meaning} |\n", column.name, column.kind.name())
}

/// Returns the link target of a heading.
fn anchor(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_understood_and_every_sentence_ends() {
        for entry in act::CATALOG {
            assert!(entry.doc.ends_with('.'), "{}", entry.usage);
            let words: Vec<_> = entry.usage.split([' ', '|']).filter(|word| !word.contains('[')).collect();
            let object = words.get(1).map(|word| if word.contains("id") { "7" } else { word });
            let is_order = matches!(act::hear(words[0], object), act::Heard::Order(_));
            assert!(is_order || ["SET", "TRACE"].contains(&words[0]), "{}", entry.usage);
        }
        for subject in show::CATALOG {
            assert!(subject.doc.ends_with('.'), "{}", subject.name);
        }
    }

    #[test]
    fn columns_are_told_with_their_types() {
        let page = reference();
        assert!(
            page.contains("### STATE\n\n| column | type | meaning |\n|---|---|---|\n| key | text | `active`"),
            "{page}"
        );
        assert!(page.contains("WAIT_FOR_SERVERS\\|WAIT_FOR_CLIENTS"));
    }
}
