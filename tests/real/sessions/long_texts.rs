//! Statements of megabytes, which arrive in pieces and are read as they arrive.

use std::fmt::Write as _;

use tests::message::{bind, execute, parse, sync};

use crate::house::House;

/// An INSERT of this many bytes, and its number of rows.
fn insert(bytes: usize) -> (String, usize) {
    let (mut text, mut rows) = ("insert into loaded values (0, 'it''s; set a.b = 1', null, 1.5)".to_owned(), 1);
    while text.len() < bytes {
        writeln!(text, ", ({rows}, 'row {rows} /* of */ many', null, -{rows}.25e1) -- set a.b = {rows}")
            .expect("memory");
        rows += 1;
    }
    (text, rows)
}

/// Regression: a statement of more than 1 MiB kept its server until DISCARD ALL or the end of its client, so that two loaders
/// on a pool of two left nothing to others.
pub(crate) fn loaders_of_megabytes_keep_no_server(house: &House) {
    let settings = ["pool_mode = transaction", "default_pool_size = 2", "query_wait_timeout = 5"];
    let pooler = house.pooler("long_texts", &settings);
    let (mut by_query, mut by_parse) = (pooler.client("u", "long_texts"), pooler.client("u", "long_texts"));
    // The pooler reads the functions of the database only after the loaders have come.
    house
        .postgres
        .client("long_texts")
        .run("create table loaded (a int, b text, c text, d float); grant all on loaded to public");
    let mut other = pooler.client("u", "long_texts");
    let (text, rows) = insert(3_000_000);
    by_query.ask(&text);
    let list = format!("select count(*) from loaded where a in (0{})", ", 1".repeat(500_000));
    by_parse.peer.send(&[parse("", &text), bind("", "", &[]), execute("", 0), sync()].concat());
    for loader in [&mut by_query, &mut by_parse] {
        let answer = loader.answer();
        assert!(answer.errors.is_empty(), "{answer:?}");
    }
    by_query.run(&list);
    by_parse.run(&format!("select 1 /* {} */", "comment ".repeat(300_000)));
    // They are idle, and others are served.
    for _ in 0..3 {
        assert_eq!(other.value("select count(*) from loaded"), (2 * rows).to_string());
    }
    let pins = pooler.console("show pins");
    assert!(pins.rows.is_empty(), "{pins:?}");
    // A long text that changes the session is still seen to do so, behind its values and within a transaction.
    by_query.run(&format!("{text}; set long.text = 'set'"));
    assert_eq!(by_query.value("show long.text"), "set");
    by_parse.run("select 1");
    assert!(other.query("show long.text").errors.iter().any(|error| error.code == "42704"), "another client's setting");
}
