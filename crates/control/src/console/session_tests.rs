//! Tests of console sessions with made-up answers.

use super::*;

use crate::console::show;
use crate::console::table::{Table, number, text};

/// A session under test.
#[derive(Default)]
struct Talk {
    session: Session,
}

impl Talk {
    fn hear(&mut self, request: Request) -> Next {
        self.session.hear(request, Right::Admin, usize::MAX)
    }

    /// Returns the message types of the answer to a request that needs no other part, and the code and text of an
    /// error.
    fn says(&mut self, request: Request) -> String {
        match self.hear(request) {
            Next::Say(bytes) => kinds(&bytes),
            Next::Refuse(refusal) => {
                let told = format!("{} {}", refusal.sqlstate, refusal.text);
                let bytes = self.session.answer(Answer::Refused(refusal));
                format!("{}: {told}", kinds(&bytes))
            }
            Next::Run(command) => panic!("{command:?} is to be done"),
        }
    }

    fn prepares(&mut self, text: &str) -> String {
        self.says(parse("", text)) + &self.says(bind("", "", &[]))
    }

    /// Executes the unnamed portal, which shows the stated table.
    fn shows(&mut self, rows_max: u32, rows: usize) -> Vec<u8> {
        let Next::Run(_) = self.hear(execute("", rows_max)) else { panic!("something to be done") };
        self.session.answer(Answer::Table(versions(rows)))
    }
}

fn versions(rows: usize) -> Table {
    let columns = show::find("VERSION").expect("a subject").columns();
    Table { columns, rows: (0..rows).map(|row| vec![text(format!("row {row}"))]).collect() }
}

fn parse(statement: &str, text: &str) -> Request {
    Request::Parse { statement: statement.to_owned(), text: text.to_owned(), types: 0 }
}

fn bind(portal: &str, statement: &str, formats: &[i16]) -> Request {
    let (portal, statement) = (portal.to_owned(), statement.to_owned());
    Request::Bind { portal, statement, parameters: 0, formats: formats.to_vec() }
}

fn execute(portal: &str, rows_max: u32) -> Request {
    Request::Execute { portal: portal.to_owned(), rows_max }
}

fn statement(name: &str) -> Target {
    Target::Statement(name.to_owned())
}

fn portal(name: &str) -> Target {
    Target::Portal(name.to_owned())
}

/// Returns the types of the messages in these bytes.
fn kinds(mut bytes: &[u8]) -> String {
    let mut kinds = String::new();
    while let Some((head, _)) = bytes.split_first_chunk::<5>() {
        kinds.push(char::from(head[0]));
        bytes = &bytes[1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize..];
    }
    kinds
}

#[test]
fn a_driver_prepares_describes_binds_and_executes() {
    let mut talk = Talk::default();
    assert_eq!(talk.says(parse("s", "SHOW VERSION")), "1");
    assert_eq!(talk.says(Request::Describe(statement("s"))), "tT");
    assert_eq!(talk.says(bind("", "s", &[])), "2");
    assert_eq!(talk.says(Request::Describe(portal(""))), "T");
    assert_eq!(kinds(&talk.shows(0, 2)), "DDC");
    assert_eq!(talk.says(execute("", 0)), "C", "nothing is left");
    assert_eq!(talk.says(Request::Flush), "");
    assert_eq!(talk.says(Request::Sync), "Z");
    assert_eq!(talk.says(bind("", "s", &[])), "2", "the statement is kept");
    assert_eq!(talk.says(Request::Close(statement("s"))), "3");
    assert_eq!(talk.says(Request::Close(portal("never"))), "3");
}

#[test]
fn rows_are_handed_out_as_they_are_asked_for() {
    let mut talk = Talk::default();
    assert_eq!(talk.prepares("SHOW VERSION"), "12");
    assert_eq!(kinds(&talk.shows(2, 5)), "DDs");
    assert_eq!(talk.says(execute("", 2)), "DDs");
    assert_eq!(talk.says(execute("", 2)), "DC");
    assert_eq!(talk.prepares("SHOW VERSION"), "12");
    assert_eq!(kinds(&talk.shows(2, 2)), "DDs", "whether there are more is not told");
    assert_eq!(talk.says(execute("", 2)), "C");
}

#[test]
fn values_come_in_the_formats_that_are_asked_for() {
    let mut talk = Talk::default();
    let table = || Table {
        columns: show::find("LISTS").expect("a subject").columns(),
        rows: vec![vec![text("pools"), number(7)]],
    };
    let mut rows_in = |formats: &[i16]| {
        assert_eq!(talk.says(parse("", "SHOW LISTS")) + &talk.says(bind("", "", formats)), "12");
        let Next::Say(described) = talk.hear(Request::Describe(portal(""))) else { panic!("a description") };
        let Next::Run(_) = talk.hear(execute("", 0)) else { panic!("something to be done") };
        (described.ends_with(&[0, 1]), talk.session.answer(Answer::Table(table())))
    };
    let row_ends_with = |(is_binary, bytes): (bool, Vec<u8>), is_wanted: bool, end: &[u8]| {
        let tag = b"C\0\0\0\x09SHOW\0";
        assert_eq!(is_binary, is_wanted);
        assert!(bytes.ends_with(&[end, &tag[..]].concat()), "{bytes:?}");
    };
    row_ends_with(rows_in(&[]), false, b"pools\0\0\0\x017");
    row_ends_with(rows_in(&[1]), true, b"pools\0\0\0\x04\0\0\0\x07");
    row_ends_with(rows_in(&[0, 1]), true, b"pools\0\0\0\x04\0\0\0\x07");
    assert!(talk.says(bind("", "", &[0, 1, 0])).starts_with("E: 08P01 bind message has 3 result formats"));
}

#[test]
fn an_order_has_no_columns_and_is_carried_out_once() {
    let mut talk = Talk::default();
    assert_eq!(talk.prepares("PAUSE"), "12");
    assert_eq!(talk.says(Request::Describe(statement(""))), "tn");
    assert_eq!(talk.says(Request::Describe(portal(""))), "n");
    assert!(matches!(talk.hear(execute("", 0)), Next::Run(Command::Order(_))));
    assert_eq!(kinds(&talk.session.answer(Answer::done("PAUSE"))), "C");
    assert_eq!(talk.says(execute("", 0)), "E: 55000 portal \"\" cannot be run");
    assert_eq!(talk.says(Request::Sync), "Z");
    assert_eq!(talk.prepares("SHOW HELP"), "12");
    assert_eq!(talk.says(Request::Describe(portal(""))), "n");
    assert!(matches!(talk.hear(execute("", 0)), Next::Run(Command::Help)));
    assert_eq!(kinds(&talk.session.answer(crate::console::help_answer())), "NC");
}

#[test]
fn an_error_makes_everything_void_up_to_sync() {
    let mut talk = Talk::default();
    assert_eq!(talk.says(parse("", "drop everything")), "E: 08P01 invalid command 'drop everything', use SHOW HELP;");
    assert_eq!(talk.says(bind("", "", &[])), "");
    assert_eq!(talk.says(Request::Query("SHOW VERSION".to_owned())), "");
    assert_eq!(talk.says(Request::Sync), "Z");
    assert_eq!(talk.says(bind("", "", &[])), "E: 26000 unnamed prepared statement does not exist");
    assert_eq!(talk.says(Request::Sync), "Z");
    // An order that fails while it is carried out has the same effect.
    assert_eq!(talk.prepares("RESUME"), "12");
    assert!(matches!(talk.hear(execute("", 0)), Next::Run(_)));
    assert_eq!(kinds(&talk.session.answer(Answer::Refused(Refusal::new("client not found")))), "E");
    assert_eq!(talk.says(execute("", 0)), "");
    assert_eq!(talk.says(Request::Sync), "Z");
}

#[test]
fn a_simple_query_is_answered_as_before() {
    let mut talk = Talk::default();
    assert_eq!(talk.prepares("SHOW VERSION"), "12");
    assert!(matches!(talk.hear(Request::Query("SHOW VERSION".to_owned())), Next::Run(_)));
    assert_eq!(kinds(&talk.session.answer(Answer::Table(versions(1)))), "TDCZ");
    assert_eq!(talk.says(Request::Query("x".to_owned())), "EZ: 08P01 invalid command 'x', use SHOW HELP;");
    assert_eq!(talk.says(execute("", 0)), "E: 34000 portal \"\" does not exist", "a simple query ends them");
}

#[test]
fn parameters_are_refused_clearly() {
    let mut talk = Talk::default();
    let typed = Request::Parse { statement: String::new(), text: "SHOW POOLS".to_owned(), types: 1 };
    for request in [typed, parse("", "SHOW $1"), parse("", "KILL_CLIENT $1;")] {
        assert_eq!(talk.says(request), "E: 0A000 console commands take no parameters");
        assert_eq!(talk.says(Request::Sync), "Z");
    }
    assert_eq!(talk.says(parse("s", "KILL \"a$1\"")), "1", "that is a name");
    let bound = Request::Bind { portal: String::new(), statement: "s".to_owned(), parameters: 2, formats: Vec::new() };
    let text = "E: 08P01 bind message supplies 2 parameters, but prepared statement \"s\" requires 0";
    assert_eq!(talk.says(bound), text);
}

#[test]
fn names_are_taken_until_they_are_closed() {
    let mut talk = Talk::default();
    assert_eq!(talk.says(parse("s", "SHOW VERSION")), "1");
    assert_eq!(talk.says(parse("s", "SHOW VERSION")), "E: 42P05 prepared statement \"s\" already exists");
    assert_eq!(talk.says(Request::Sync), "Z");
    assert_eq!(talk.says(bind("p", "s", &[])), "2");
    assert_eq!(talk.says(bind("p", "s", &[])), "E: 42P03 cursor \"p\" already exists");
    assert_eq!(talk.says(Request::Sync), "Z");
    assert_eq!(talk.says(bind("p", "s", &[])), "2", "Sync has ended the one before");
    assert_eq!(talk.says(bind("q", "other", &[])), "E: 26000 prepared statement \"other\" does not exist");
}

#[test]
fn nobody_fills_the_console_with_statements_or_portals() {
    let mut talk = Talk::default();
    for number in 0..STATEMENTS_MAX {
        assert_eq!(talk.says(parse(&format!("s{number}"), "SHOW VERSION")), "1");
    }
    assert!(talk.says(parse("more", "SHOW VERSION")).starts_with("E: 53400 the console keeps no more than 256"));
    assert_eq!(talk.says(Request::Sync), "Z");
    for number in 0..PORTALS_MAX {
        assert_eq!(talk.says(bind(&format!("p{number}"), "s0", &[])), "2");
    }
    assert!(talk.says(bind("more", "s0", &[])).starts_with("E: 53400 the console keeps no more than 16 portals"));
}

#[test]
fn what_needs_a_right_needs_it_when_it_is_prepared() {
    let mut session = Session::default();
    let Next::Refuse(refusal) = session.hear(parse("", "RELOAD"), Right::Stats, usize::MAX) else {
        panic!("a refusal")
    };
    assert_eq!(refusal.text, "admin access needed");
}
