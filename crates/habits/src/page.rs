//! The table of the documentation page: one row for each sender of each script.

use super::Habit;

/// Writes the table, ordered by senders; scripts that applications send themselves come last.
#[must_use]
pub fn page(habits: &[Habit]) -> String {
    let mut rows = Vec::new();
    for habit in habits {
        for sender in &habit.senders {
            let (who, file, moment, name) = (&sender.who, &sender.file, sender.moment.word(), &habit.name);
            let keeps =
                habit.keeps.as_ref().map(|why| format!(" The client keeps its server: {why}.")).unwrap_or_default();
            let what = format!("{}{keeps}", habit.title).replace('|', "\\|");
            let is_own = who == APPLICATIONS;
            let file = if is_own { file.clone() } else { format!("`{file}`") };
            let row = format!("| {who} | {file} | {moment} | {what} | [{name}](../../tests/habits/{name}.sql) |\n");
            rows.push(((is_own, who.to_lowercase()), row));
        }
    }
    rows.sort();
    rows.into_iter().fold(HEAD.to_owned(), |page, (_, row)| page + &row)
}

/// The sender's name in scripts that no driver sends on its own.
const APPLICATIONS: &str = "applications";

const HEAD: &str = "| sender | source | when | what it sends | script |\n|---|---|---|---|---|\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_of_a_habit_has_a_row_and_rows_stand_in_the_order_of_senders() {
        let text = "-- One | two.\n-- by: Z 1; a.py, f; connect\n-- by: a 2; b.rs, g; release\n-- protocol: simple\n\nSELECT 1;\n";
        let habit = Habit::read("one", text).expect("a habit");
        let end = "One \\| two. | [one](../../tests/habits/one.sql) |\n";
        let rows = format!("| a 2 | `b.rs, g` | release | {end}| Z 1 | `a.py, f` | connect | {end}");
        assert_eq!(page(&[habit]), format!("{HEAD}{rows}"));
    }
}
