//! Parameters that follow a client: the SQL that sets them on a server.
//!
//! Input: texts separated by zero bytes: for each parameter the client's value and the server's, with `?` alone for an
//! unknown one.
//!
//! Always true: the SQL consists of SET commands and `set_config` calls only, however PostgreSQL reads backslashes;
//! each sets exactly the client's value; a server with these values needs no more SQL.

use std::rc::Rc;

use protocol::client::statuses::Statuses;
use protocol::vars::{Tracked, Vars};
use wire::backend;

use crate::Target;
use crate::model::messages;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "vars",
    run,
    words: &[
        b"'",
        b"''",
        b"\\",
        b"\\'",
        b" E'",
        b"$$",
        b"--",
        b"/*",
        b"; drop table t;",
        b"?\0",
        b"\xc2\xa5",
        b"\n",
        b"SET ",
    ],
    bytes_max: 300,
};

/// Sets the values that differ.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let tracked = Tracked::new(["IntervalStyle", "search_path"]);
    let (mut client, mut server) = (Vars::new(&tracked), Vars::new(&tracked));
    let mut texts = text.split('\0');
    for place in 0..tracked.reported_names().count() {
        for vars in [&mut client, &mut server] {
            if let Some(value) = texts.next().filter(|value| *value != "?") {
                vars.set(place, value);
            }
        }
    }
    let differs = |place| match (client.get(place), server.get(place)) {
        (Some(wanted), Some(has)) => (wanted != has).then_some(wanted),
        _ => None,
    };
    let mut wanted: Vec<(String, String)> = tracked
        .names()
        .enumerate()
        .filter_map(|(place, name)| Some((name.to_owned(), differs(place)?.to_owned())))
        .collect();
    // The encoding comes first, in a separate query.
    wanted.sort_by_key(|(name, _)| name != "client_encoding");
    let queries = server.catch_up(&client, &tracked, true);
    assert!(queries.iter().all(|sql| sql.is_ascii()), "{queries:?}");
    let sql = queries.concat();
    for backslash in [Backslash::Plain, Backslash::Escape] {
        assert_eq!(settings(&sql, backslash), wanted, "{sql:?} read with {backslash:?}");
    }
    let mut caught_up = server.clone();
    for (name, value) in &wanted {
        caught_up.set(tracked.place(name).expect("its own name"), value);
    }
    assert!(caught_up.catch_up(&client, &tracked, true).is_empty());
    statuses(&client, &tracked);
    merged(&client, &server, &tracked);
}

/// The value of `standard_conforming_strings`: the meaning of backslashes in plain literals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Backslash {
    Plain,
    Escape,
}

/// Reads the SQL as PostgreSQL's lexer would, as far as needed: the parameter and value of every command.
fn settings(mut sql: &str, backslash: Backslash) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while !sql.is_empty() {
        let (name, value);
        if let Some(rest) = sql.strip_prefix("SELECT pg_catalog.set_config(") {
            let (own, rest) = literal(rest, backslash);
            let rest = rest.strip_prefix(",").expect("a second argument");
            let (text, rest) = literal(rest, backslash);
            sql = rest.strip_prefix(", false);").expect("the end of the call");
            (name, value) = (own, text);
        } else {
            let rest = sql.strip_prefix("SET ").expect("a command that sets");
            let (own, rest) = rest.split_once('=').expect("a parameter");
            assert!(own.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{own:?}");
            let (text, rest) = literal(rest, backslash);
            sql = rest.strip_prefix(';').expect("the end of the command");
            (name, value) = (own.to_owned(), text);
        }
        found.push((name, value));
    }
    found
}

/// Reads a literal, with blanks before it. Returns its value and the rest.
fn literal(sql: &str, backslash: Backslash) -> (String, &str) {
    let sql = sql.trim_start_matches(' ');
    if let Some(rest) = sql.strip_prefix("pg_catalog.convert_from(pg_catalog.decode('") {
        let (hex, rest) = rest.split_once("','hex'),'UTF8')").expect("the end of the expression");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        let bytes = (0..hex.len()).step_by(2).map(byte).collect();
        return (String::from_utf8(bytes).expect("the text"), rest);
    }
    let (sql, escapes) = match sql.strip_prefix('E') {
        Some(sql) => (sql, true),
        None => (sql, backslash == Backslash::Escape),
    };
    let body = sql.strip_prefix('\'').expect("a literal");
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if escapes => {
                let (_, escaped) = characters.next().expect("something behind a backslash");
                assert_eq!(escaped, '\\', "an escape that means something else");
                value.push(escaped);
            }
            '\'' if body[at + 1..].starts_with('\'') => {
                characters.next();
                value.push('\'');
            }
            '\'' => return (value, &body[at + 1..]),
            other => value.push(other),
        }
    }
    panic!("a literal that does not end: {sql:?}");
}

fn statuses(vars: &Vars, tracked: &Tracked) {
    let mut out = Vec::new();
    // As for a client of servers that report nothing.
    Statuses::new(Rc::new(Vars::new(tracked)), tracked).write_for(vars, tracked, &mut out);
    let told: Vec<(String, String)> = messages(&out)
        .into_iter()
        .map(|(kind, body)| {
            assert_eq!(kind, b'S');
            let (name, value) = backend::parameter_status(body).expect("two texts");
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let known = tracked.reported_names().enumerate();
    let known = known.filter_map(|(place, name)| Some((name.to_owned(), vars.get(place)?.to_owned())));
    assert_eq!(told, known.collect::<Vec<_>>());
}

fn merged(client: &Vars, server: &Vars, tracked: &Tracked) {
    let (mut filled, mut respelt) = (client.clone(), client.clone());
    let are_equal = filled.complete_from(server);
    assert_eq!(are_equal, filled == *server);
    respelt.respell(server, tracked, true);
    for place in 0..tracked.reported_names().count() {
        let theirs = server.get(place).filter(|_| tracked.is_followed(place));
        assert_eq!(filled.get(place), server.get(place).map(|theirs| client.get(place).unwrap_or(theirs)));
        assert_eq!(respelt.get(place), theirs.or(client.get(place)));
    }
}
