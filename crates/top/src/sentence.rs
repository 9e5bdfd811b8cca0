//! The sentence on top of every view: what is wrong, if anything is.
//!
//! Always true: the console's own sentence is used if it has one (`SHOW WAITS`); PgBouncer has none, so the sentence is
//! made from `SHOW POOLS`.
//! Not here: how it is shown (`draw`, `picture`).

use crate::table::Table;

/// A sentence, and whether it reports a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sentence {
    /// The text.
    pub(crate) text: String,
    /// Whether there is no problem.
    pub(crate) is_well: bool,
}

/// The sentence in `SHOW WAITS`.
pub(crate) fn of_waits(waits: &Table) -> Option<Sentence> {
    let row = waits.rows().iter().find(|row| waits.value(row, "what") == Some(SUMMARY))?;
    let text = waits.value(row, "doing")?.to_owned();
    let is_well = text.starts_with("All is well");
    Some(Sentence { text, is_well })
}

/// `SHOW WAITS` without the row of the sentence.
pub(crate) fn without_sentence(waits: &Table) -> Table {
    let rows = waits.rows().iter().filter(|row| waits.value(row, "what") != Some(SUMMARY));
    Table::made(waits.columns().to_vec(), rows.cloned().collect(), waits.left_out())
}

/// A sentence about waiting clients, from `SHOW POOLS`.
pub(crate) fn of_pools(pools: &Table) -> Option<Sentence> {
    pools.place("cl_waiting")?;
    let waiting = |row| pools.number(row, "cl_waiting").unwrap_or(0.0);
    let longest =
        |row| pools.number(row, "maxwait").unwrap_or(0.0) + pools.number(row, "maxwait_us").unwrap_or(0.0) / 1e6;
    let worst = pools
        .rows()
        .iter()
        .filter(|row| waiting(row) > 0.0)
        .max_by(|left, right| longest(left).total_cmp(&longest(right)));
    let Some(worst) = worst else {
        return Some(Sentence { text: "Nobody waits for a server.".to_owned(), is_well: true });
    };
    let clients: f64 = pools.rows().iter().map(|row| waiting(row)).sum();
    let name = |column| pools.value(worst, column).unwrap_or("?");
    let pool = format!("in the pool of database {}, user {}", name("database"), name("user"));
    let text = match (clients, longest(worst)) {
        (1.0, seconds) => format!("1 client has waited {seconds:.1} s for a server, {pool}."),
        (clients, seconds) => format!("{clients} clients wait for a server, the longest for {seconds:.1} s, {pool}."),
    };
    Some(Sentence { text, is_well: false })
}

const SUMMARY: &str = "summary";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consoles_own_sentence_is_taken_and_its_row_is_not_shown() {
        let mut waits = Table::new(["what", "doing"]);
        waits.push([Some("summary"), Some("All is well: nobody waits.")]);
        waits.push([Some("holder"), Some("idle in transaction")]);
        let sentence = of_waits(&waits).expect("a sentence");
        assert_eq!((sentence.text.as_str(), sentence.is_well), ("All is well: nobody waits.", true));
        assert_eq!(without_sentence(&waits).rows(), &waits.rows()[1..]);
        assert_eq!(of_waits(&without_sentence(&waits)), None);
    }

    #[test]
    fn pools_say_who_waits_longest() {
        let mut pools = Table::new(["database", "user", "cl_waiting", "maxwait", "maxwait_us"]);
        pools.push([Some("a"), Some("u"), Some("0"), Some("0"), Some("0")]);
        assert!(of_pools(&pools).expect("a sentence").is_well);
        pools.push([Some("b"), Some("u"), Some("1"), Some("3"), Some("200000")]);
        assert_eq!(
            of_pools(&pools).expect("a sentence").text,
            "1 client has waited 3.2 s for a server, in the pool of database b, user u."
        );
        pools.push([Some("c"), Some("u"), Some("4"), Some("1"), Some("0")]);
        assert!(
            of_pools(&pools)
                .expect("a sentence")
                .text
                .starts_with("5 clients wait for a server, the longest for 3.2 s")
        );
        assert_eq!(of_pools(&Table::new(["name"])), None);
    }
}
