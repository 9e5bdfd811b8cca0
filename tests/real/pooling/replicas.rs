//! Which of several hosts a database's servers are opened at: weights, zones, lag; and how they move when a host is back.

use tests::client::Client;
use tests::pooler::{Ini, Pooler};

use crate::house::House;

pub(crate) fn servers_are_spread_by_weight_and_the_own_zone_comes_first(house: &House) {
    house.postgres.database("spread");
    let port = house.postgres.port();
    let line = |name: &str, more: &str| format!("{name} = host=127.0.0.1,127.0.0.2 port={port} dbname=spread {more}");
    let ini = |zone: &str| {
        let ini = Ini::new(&line("weighted", "weights=3,1"));
        let ini = ini.database(&line("zoned", "zones=north,south load_balance_hosts=least-busy"));
        ini.set("pool_mode = transaction").set(&format!("zone = {zone}"))
    };
    let pooler = house.start(&ini("south"));
    assert_eq!(spread(&pooler, "weighted", 8), [6, 2]);
    assert_eq!(spread(&pooler, "zoned", 4), [0, 4]);
    // Another zone concerns the servers that are opened from now on.
    pooler.rewrite(&ini("north"));
    pooler.console("RELOAD");
    pooler.console("RECONNECT zoned");
    assert_eq!(spread(&pooler, "zoned", 3), [3, 0]);
    assert_eq!(pooler.console("SHOW DATABASES").named(1)["load_balance_hosts"], "round-robin");
}

pub(crate) fn weights_and_zones_that_make_no_sense_are_refused(house: &House) {
    for (line, words) in [
        ("host=a,b weights=1,2,3", "could not match 3 weights to 2 hosts"),
        ("host=a,b zones=x,y,z", "could not match 3 zones to 2 hosts"),
        ("host=a weights=1001", "invalid weights: 1001 (expected whole numbers from 0 to 1000, with commas)"),
        ("host=a load_balance_hosts=least", "invalid load_balance_hosts: least"),
    ] {
        let (code, said) = Pooler::start_in_vain(&house.place, &Ini::new(&format!("d = {line}")));
        assert!(code != 0 && said.contains(words), "{line}: {said}");
    }
}

/// At which of two addresses the servers of so many clients are, all of which are in a transaction.
fn spread(pooler: &Pooler, database: &str, clients: usize) -> [usize; 2] {
    let mut clients: Vec<_> = (0..clients).map(|_| pooler.client("u", database)).collect();
    clients.iter_mut().for_each(|client| client.run("begin"));
    let addresses: Vec<_> = clients.iter_mut().map(address).collect();
    [1, 2].map(|last| addresses.iter().filter(|address| **address == format!("127.0.0.{last}")).count())
}

fn address(client: &mut Client) -> String {
    client.value("select inet_server_addr()")
}
