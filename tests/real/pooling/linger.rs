//! Clients in a loop, each with its own settings, on fewer servers than clients.

use std::thread;

use crate::house::House;

/// A server runs several transactions of one client before the settings of the next client are sent to it: each transaction
/// that begins within the time for which a server lingers, so not many on a busy machine.
pub(crate) fn clients_in_a_loop_have_some_transactions_in_a_row(house: &House) {
    let pooler = house.pooler("linger", &["pool_mode = transaction", "default_pool_size = 2"]);
    let loops = |number: u32| {
        let mut client = pooler.client("u", "linger");
        client.run(&format!("set app.number = {number}"));
        for _ in 0..500 {
            assert_eq!(client.value("select current_setting('app.number')"), number.to_string());
        }
    };
    thread::scope(|scope| (0..8).for_each(|number| drop(scope.spawn(move || loops(number)))));
    let stats = pooler.console("show stats");
    let database = (0..stats.rows.len()).map(|row| stats.named(row)).find(|row| row["database"] == "linger");
    let count = |name: &str| database.as_ref().expect("our database")[name].parse::<u32>().expect("a number");
    let (loans, transactions) = (count("total_server_assignment_count"), count("total_xact_count"));
    assert!(transactions >= 8 * 501 && loans < transactions, "{loans} loans for {transactions} transactions");
}
