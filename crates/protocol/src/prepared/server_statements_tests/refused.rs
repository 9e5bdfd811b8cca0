//! What the server's errors say about our statements.

use super::*;

fn exists(number: u64) -> Vec<u8> {
    format!("SERROR\0C42P05\0Mprepared statement \"PGBOUNCER_{number}\" already exists\0\0").into_bytes()
}

#[test]
fn a_name_is_not_taken_by_what_is_known_to_be_there() {
    let (mut t, mut ann) = (Stage::new(1), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.server.server_statements.refused(&exists(1));
    t.parse(&mut ann, "b", "select 2");
    t.asked(b"S");
    t.hears(&mut ann, "31Z");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_2, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn a_name_is_taken_when_its_first_parse_is_refused() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.prepares(&mut ann, "a", "select 1");
    t.another_server();
    t.bind(&mut ann, "a");
    t.asked(b"S");
    t.server.server_statements.refused(&exists(1));
    t.hears(&mut ann, "EZ");
    assert_eq!(t.bind(&mut ann, "a"), "Close PGBOUNCER_1, Parse PGBOUNCER_1 select 1, Bind PGBOUNCER_1");
}

#[test]
fn few_taken_names_are_remembered_the_latest_ones() {
    let mut t = Stage::new(9);
    for number in 1..=65 {
        t.server.server_statements.refused(&exists(number));
    }
    assert_eq!(t.server.server_statements.taken, (2..=65).collect::<Vec<u64>>());
}

#[test]
fn an_error_is_reworded_with_the_name_of_that_very_statement() {
    let (mut t, mut ann) = (Stage::new(9), Names::default());
    t.parse(&mut ann, "b", "select 1");
    t.parse(&mut ann, "a", "select 2");
    t.parse(&mut ann, "c", "select 3");
    for (number, name) in [(1, "b"), (2, "a"), (3, "c")] {
        let body = ann.reworded(&exists(number)).expect("it is reworded");
        assert!(String::from_utf8_lossy(&body).contains(&format!("\"{name}\"")), "{number}");
    }
}
