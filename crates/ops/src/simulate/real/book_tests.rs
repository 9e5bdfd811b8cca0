//! What is counted of transactions that end in different ways.

use super::*;
use crate::load::Refused as Error;
use crate::simulate::demand::spec_of_text;

const SPEC: &str = "duration = '10 s'\nwarm_up = '1 s'\n[[databases]]\n[[databases.tenants]]\ncount = 2\narrivals = { poisson = 1 }\n\
                    [[databases.tenants.transactions]]\nservice = '1 ms'\n";

fn flight(tenant: u32) -> Flight {
    Flight { tenant, group: 0, kind: 0, user: None, steps: 3, thinks: 1000, posts: true, is_ordinary: true }
}

fn ended(at: u64, end: End, over: usize, begun: usize, error: Option<(&str, &str)>) -> Ended {
    let passage = Passage { at, noticed: at, sent: Some(at + 100), ended: at + 20_000, end };
    Ended {
        tag: 0,
        lane: 0,
        passage,
        first_answered: (over > 0).then_some(at + 5_100),
        begun,
        over,
        error: error.map(|(sqlstate, text)| Error { sqlstate: sqlstate.to_owned(), text: text.to_owned() }),
    }
}

#[test]
fn each_transaction_is_counted_once_and_posts_by_what_is_known_of_them() {
    let (_, spec) = spec_of_text(SPEC).expect("a spec");
    let objects = Objects::of(&spec);
    let mut book = Book::new(&spec, &objects);
    let second = 1_000_000;
    book.note(&flight(0), 1, &ended(2 * second, End::Done, 3, 3, None));
    // Before the counted time.
    book.note(&flight(0), 2, &ended(0, End::Done, 3, 3, None));
    book.note(&flight(0), 3, &ended(3 * second, End::Errored, 0, 1, Some(("08P01", "query_wait_timeout"))));
    book.note(&flight(1), 4, &ended(4 * second, End::Errored, 1, 2, Some(("23505", "duplicate key"))));
    // The connection broke when COMMIT was on its way.
    book.note(&flight(1), 5, &ended(5 * second, End::Errored, 2, 3, Some(("", "the connection was closed"))));
    book.note(&flight(1), 6, &ended(9 * second, End::Abandoned, 1, 2, None));
    let whole = book.whole;
    assert_eq!((whole.started, whole.done, whole.failed, whole.refused, whole.in_flight), (6, 2, 2, 1, 1));
    assert_eq!((whole.begun, whole.perhaps_begun), (5, 1));
    assert_eq!(
        book.check(&[vec![1, 2], vec![5]]),
        Posts { acknowledged: 2, unknown: 1, found: 3, lost: 0, unexplained: 0 }
    );
    let wrong = book.check(&[vec![1, 3], vec![]]);
    assert_eq!((wrong.lost, wrong.unexplained), (1, 1));
    let around = Around {
        is_complete: true,
        ended: 10 * second,
        turns: &[
            Turn { at: 0.5, role: "tlsim_1_1_1".to_owned(), is_begin: true },
            Turn { at: 2.0, role: "tlsim_1_1_2".to_owned(), is_begin: true },
            Turn { at: 3.0, role: "tlsim_1_1_2".to_owned(), is_begin: false },
        ],
        closed_for_age: 1,
        servers_mean: 2.0,
        servers_peak: 2,
        clients_peak: 3,
        server_cpu: 0.5,
        balances: Vec::new(),
    };
    let outcome = book.outcome(&spec, &objects, &around);
    assert_eq!((outcome.counts.arrived, outcome.counts.done, outcome.counts.failed), (5, 1, 2));
    assert_eq!(outcome.counts.refused, [1, 0, 0, 0]);
    assert_eq!((outcome.servers.opened, outcome.servers.closed[LIFETIME], outcome.churn()), (1, 1, 0.0));
    assert_eq!((outcome.counts.held, outcome.counts.executed), (14_900, 13_900));
    assert!(outcome.wait(50.0) >= 0.005 && outcome.wait(50.0) < 0.0051, "{}", outcome.wait(50.0));
    assert!((outcome.throughput() - 1.0 / 9.0).abs() < 1e-9);
}
