//! What rows of the table may cost at most, as written down by hand.
//!
//! Always true: a row without a reason is refused; figures are compared only where they were counted like the table's.
//! Not here: what rows cost (`table`).

use super::table::Table;

/// The budgets, by the names of rows.
#[derive(Debug, PartialEq)]
pub(super) struct Budget {
    rows: Vec<(String, f64)>,
}

impl Budget {
    /// Reads the page.
    pub(super) fn read(page: &str) -> Result<Self, String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let rows = lines.filter(|line| !line.starts_with("one |")).map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            match cells[..] {
                [name, most, why, _aim] if !why.trim().is_empty() => {
                    let most = most.parse().map_err(|_| format!("the budget of {name} is no number: {most}"))?;
                    Ok((name.to_owned(), most))
                }
                _ => Err(format!("a budget needs a row, a figure, a reason and an aim: {line}")),
            }
        });
        Ok(Self { rows: rows.collect::<Result<_, String>>()? })
    }

    /// The rows of a table that cost more.
    pub(super) fn exceeded_by(&self, table: &Table) -> Vec<String> {
        let most = |name: &str| self.rows.iter().find(|(known, _)| known == name).map(|(_, most)| *most);
        let rows = table.rows.iter().filter_map(|(name, figures)| {
            let most = most(name).filter(|most| figures.instructions > *most)?;
            Some(format!("{name}: {:.0} instructions, above its budget of {most:.0}", figures.instructions))
        });
        rows.collect()
    }

    /// Whether a row has a budget.
    #[cfg(test)]
    pub(super) fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|(known, _)| known == name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Figures;
    use super::*;

    fn table(instructions: f64) -> Table {
        let figures = Figures { instructions, ..Figures::default() };
        Table { key: String::new(), rows: vec![("simple".to_owned(), figures), ("other".to_owned(), figures)] }
    }

    #[test]
    fn what_costs_more_than_its_budget_is_named() {
        let page = "text\n| one | at most | why so much | aim |\n|---|---|---|---|\n| simple | 100 | it is so | 50 |\n";
        let budget = Budget::read(page).expect("a budget");
        assert!(budget.has("simple") && !budget.has("other"));
        assert_eq!(budget.exceeded_by(&table(100.0)), [""; 0]);
        assert_eq!(budget.exceeded_by(&table(101.0)), ["simple: 101 instructions, above its budget of 100"]);
    }

    #[test]
    fn a_budget_without_a_figure_or_a_reason_is_refused() {
        for (page, why) in [
            ("| simple | much | it is so | 50 |", "the budget of simple is no number: much"),
            ("| simple | 100 |  | 50 |", "a budget needs a row, a figure, a reason and an aim: simple | 100 |  | 50"),
        ] {
            assert_eq!(Budget::read(page), Err(why.to_owned()));
        }
    }
}
