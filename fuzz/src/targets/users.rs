//! The file of users and their secrets (`auth_file`).
//!
//! Input: the file.
//!
//! Always true: the file has the same users as in a second parser, written for clarity; users are found by name; what
//! was read and written again reads the same.

use auth::users::{SECRET_BYTES_MAX, USER_BYTES_MAX};
use auth::{Secret, UserFile};

use crate::Target;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "users",
    run,
    words: &[
        b"\"ann\" \"secret\"\n",
        b"\"\"",
        b"\" \"",
        b"\n",
        b"\r\n",
        b";",
        b"\0",
        b"\xff",
        b"\"md50123456789abcdef0123456789abcdef\"",
        b"SCRAM-SHA-256$4096:",
    ],
    bytes_max: 400,
};

/// Reads the file.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let (file, problems) = UserFile::parse(input);
    let found: Vec<(String, Vec<u8>)> =
        file.iter().map(|(user, secret)| (user.to_owned(), secret.text().into_owned())).collect();
    let (expected, bad_lines) = read(input);
    assert_eq!(found.len(), expected.len());
    for ((user, _), (name, secret)) in found.iter().zip(&expected) {
        assert_eq!(user, name);
        assert!(**file.secret(user).expect("a user of the file") == Secret::parse(secret), "another secret of {user}");
    }
    assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), bad_lines);
    assert!(problems.iter().all(|problem| !problem.to_string().contains(char::is_control)));
    assert_eq!((file.len(), file.is_empty()), (found.len(), found.is_empty()));
    let again = UserFile::parse(&written(&found));
    assert!(again.1.is_empty(), "{:?}", again.1);
    let again: Vec<_> = again.0.iter().map(|(user, secret)| (user.to_owned(), secret.text().into_owned())).collect();
    assert_eq!(again, found);
}

/// Returns the users, and the numbers of the wrong lines.
fn read(file: &[u8]) -> (Vec<(String, Vec<u8>)>, Vec<usize>) {
    let (mut users, mut bad_lines) = (Vec::<(String, Vec<u8>)>::new(), Vec::new());
    for (number, line) in file.split(|&byte| byte == b'\n').enumerate() {
        let start = line.iter().position(|byte| !b" \t\r\x0b\x0c".contains(byte));
        let Some(line) = start.map(|start| &line[start..]).filter(|line| line[0] != b';') else { continue };
        let mut bytes = line.iter().copied().peekable();
        let user = text(&mut bytes).filter(|user| user.len() <= USER_BYTES_MAX);
        let secret = user.is_some().then(|| {
            while bytes.next_if(|&byte| byte != b'"').is_some() {}
            text(&mut bytes).filter(|secret| secret.len() <= SECRET_BYTES_MAX)
        });
        let (Some(user), Some(Some(secret))) = (user, secret) else {
            bad_lines.push(number + 1);
            return (users, bad_lines);
        };
        let Ok(user) = String::from_utf8(user) else {
            bad_lines.push(number + 1);
            continue;
        };
        match users.iter_mut().find(|(known, _)| *known == user) {
            Some((_, known)) => *known = secret,
            None => users.push((user, secret)),
        }
    }
    (users, bad_lines)
}

/// Takes a quoted text off the front.
fn text(bytes: &mut std::iter::Peekable<impl Iterator<Item = u8>>) -> Option<Vec<u8>> {
    bytes.next_if_eq(&b'"')?;
    let mut text = Vec::new();
    loop {
        match bytes.next()? {
            b'"' if bytes.next_if_eq(&b'"').is_none() => return (!text.contains(&0)).then_some(text),
            byte => text.push(byte),
        }
    }
}

fn written(users: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (user, secret) in users {
        for (text, end) in [(user.as_bytes(), b' '), (secret, b'\n')] {
            out.push(b'"');
            for &byte in text {
                out.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
            }
            out.extend([b'"', end]);
        }
    }
    out
}
