//! Connection strings: the values of `[databases]`, `[users]` and `[peers]`.
//!
//! Input: the section, and the line's value.
//!
//! Always true: the string has the same pairs as in a second parser, written for clarity; values mean what they say;
//! every wrong pair is reported, on one line, and no message repeats a quoted password.

use std::sync::Arc;

use config::{Loaded, Mistake, Overrides, load};

use crate::Target;
use crate::draw::Draw;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "connstr",
    run,
    words: &[
        b"host=",
        b"port=",
        b"dbname=",
        b"user=",
        b"password=",
        b"password='",
        b"s3cret77",
        b"pool_size=",
        b"pool_mode=",
        b"' ",
        b"''",
        b"'",
        b" = ",
        b"auth_user=",
        b"connect_query=",
        b"'select 1' ",
        b"timezone=",
        b"max_db_connections=",
        b"/tmp",
        b"::1",
        b"[::1]",
        b"a,b",
        b"-1",
        b"query_timeout=",
        b"load_balance_hosts=disable",
    ],
    bytes_max: 300,
};

/// Reads the line.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let section = draw.pick(&["databases", "databases", "users", "peers"]);
    let Ok(value) = std::str::from_utf8(draw.rest()) else { return };
    if value.contains(['\n', '\0']) {
        return;
    }
    let text = format!("[pgbouncer]\n[{section}]\n1 = {value}\n");
    let loaded = load("t.ini", &|_| Ok(text.as_bytes().to_vec()), &Overrides::default());
    // Blanks in front of a value do not belong to it, and the line is trimmed as a whole.
    let value = value.trim_start_matches([' ', '\t']).trim_end_matches(|c: char| c.is_ascii_whitespace());
    let pairs = pairs(value);
    match (&pairs, loaded) {
        (Err(Malformed), Ok(_)) => panic!("a string that is none is accepted: {value:?}"),
        (Err(Malformed), Err(mistakes)) => {
            let [mistake] = &mistakes[..] else { panic!("one mistake, not {mistakes:?}") };
            assert!(mistake.text.starts_with("syntax error in connection string: "), "{mistake}");
        }
        (Ok(pairs), Ok(loaded)) => means(section, pairs, &loaded),
        (Ok(pairs), Err(mistakes)) => told(pairs, &mistakes),
    }
}

/// Not a connection string.
#[derive(Debug)]
struct Malformed;

/// Splits a string into pairs, one character after the other.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    let mut found = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        while characters.next_if_eq(&' ').is_some() {}
        if characters.peek().is_none() {
            return Ok(found);
        }
        let mut key = String::new();
        while let Some(character) = characters.next_if(|c| !matches!(c, ' ' | '=')) {
            key.push(character);
        }
        while characters.next_if_eq(&' ').is_some() {}
        characters.next_if_eq(&'=').ok_or(Malformed)?;
        while characters.next_if_eq(&' ').is_some() {}
        let mut value = String::new();
        if characters.next_if_eq(&'\'').is_some() {
            loop {
                match characters.next().ok_or(Malformed)? {
                    '\'' if characters.next_if_eq(&'\'').is_none() => break,
                    character => value.push(character),
                }
            }
            if characters.peek().is_some_and(|&c| c != ' ') {
                return Err(Malformed);
            }
        } else {
            while let Some(character) = characters.next_if(|c| *c != ' ') {
                value.push(character);
            }
        }
        if key.is_empty() || value.is_empty() {
            return Err(Malformed);
        }
        found.push((key, value));
    }
}

fn means(section: &str, pairs: &[(String, String)], loaded: &Loaded) {
    let last = |wanted: &str| pairs.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
    let settings = &loaded.settings;
    match section {
        "databases" => {
            let database = &settings.databases["1"];
            let texts: [(&str, &Option<Arc<str>>); 8] = [
                ("user", &database.user),
                ("auth_user", &database.auth_user),
                ("auth_query", &database.auth_query),
                ("connect_query", &database.connect_query),
                ("client_encoding", &database.client_encoding),
                ("datestyle", &database.datestyle),
                ("timezone", &database.timezone),
                ("application_name", &database.application_name),
            ];
            for (key, text) in texts {
                assert_eq!(text.as_deref(), last(key), "{key}");
            }
            assert_eq!(&*database.dbname, last("dbname").unwrap_or("1"));
            assert_eq!(database.password.as_ref().map(|password| password.expose()), last("password"));
            let ports: Vec<_> = last("port").unwrap_or("5432").split(',').collect();
            for (place, (_, port)) in database.hosts_with_ports().enumerate() {
                let told = ports.get(place).unwrap_or(&ports[0]).trim_matches(' ');
                assert_eq!(port.to_string(), told.trim_start_matches(['+', '0']));
            }
            assert_eq!(database.host_text.as_deref(), last("host"));
        }
        "users" => assert!(settings.users.contains_key("1")),
        _ => assert_eq!(Some(&*settings.peers[&1].host_text), last("host")),
    }
}

fn told(pairs: &[(String, String)], mistakes: &[Mistake]) {
    assert!(!mistakes.is_empty() && mistakes.len() <= pairs.len().max(1));
    for mistake in mistakes {
        let line = mistake.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(mistake.place.line, 3, "{line}");
        // A password with these digits is not part of our texts by chance.
        for (_, password) in pairs.iter().filter(|(key, value)| key == "password" && value.contains("77")) {
            let is_elsewhere = |(key, value): &(String, String)| {
                key.contains(password.as_str()) || key != "password" && value.contains(password.as_str())
            };
            assert!(!line.contains(password.as_str()) || pairs.iter().any(is_elsewhere), "{line}");
        }
    }
}
