//! `SHOW RATE_LIMITS`: the rules and their counters.

use base::Wall;
use config::written_filter;
use pool::{Period, RateRow};

use super::view::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, number, text};

pub(super) const RATE_LIMITS: Subject = Subject {
    name: "RATE_LIMITS",
    doc: "The rules of `[rate_limits]`: what each has admitted, delayed and rejected, how many keys it is counting, and since when it has been delaying or rejecting, if it is.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[
        Column::text("name"),
        Column::text("events"),
        Column::text("by"),
        Column::text("only"),
        Column::text("rate"),
        Column::int("burst"),
        Column::text("action"),
        Column::big("admitted"),
        Column::big("delayed"),
        Column::big("rejected"),
        Column::int("keys"),
        Column::text("limiting_since"),
    ],
    rows: rates,
};

fn rates(view: &View<'_>) -> Vec<Vec<Cell>> {
    let cells = |(row, since): &(RateRow, Option<Wall>)| {
        let (rule, tally) = (&row.rule, row.tally);
        let period = match rule.rate.period {
            Period::Second => "s",
            Period::Minute => "m",
            Period::Hour => "h",
        };
        vec![
            text(&*rule.name),
            text(rule.counts.to_string()),
            text(rule.by.to_string()),
            text(written_filter(&rule.only)),
            text(format!("{}/{period}", rule.rate.count)),
            number(rule.rate.burst),
            text(rule.excess.to_string()),
            number(tally.admitted),
            number(tally.delayed),
            number(tally.rejected),
            number(row.keys),
            since.and_then(moment),
        ]
    };
    view.rates.iter().map(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn rules_are_shown_as_they_are_written_with_what_they_have_counted() {
        assert_eq!(
            heads("RATE_LIMITS"),
            "name s, events s, by s, only s, rate s, burst i, action s, admitted q, delayed q, rejected q, keys i, limiting_since s"
        );
        let settings = settings(
            "[rate_limits]\nstorm = events=logins by=address rate=30/m\n\
             api = events=transactions user=app rate=9 burst=2 action=reject\n[pgbouncer]\nauth_type=any\n",
        );
        assert_eq!(
            lines(&table_of("RATE_LIMITS", &settings, "", &[])),
            [
                "api|transactions||user=app|9/s|2|reject|0|0|0|0|NULL",
                "storm|logins|address||30/m|30|delay|0|0|0|0|NULL"
            ]
        );
    }
}
