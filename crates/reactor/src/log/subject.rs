//! The subject of a log line: how it is written before the message, and where each of its parts is.
//!
//! Always true: the text is what PgBouncer writes; the parts are found by the offsets where they were written and not
//! by parsing the text, because a client may put any character into the names of its database and user.
//! Not here: the format of whole lines (`log`, `json`).

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use base::Id;

/// The subject of a line. Written, it is the beginning of the line: `C-0x2a: shop/ann@10.0.0.1:5000 `.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Subject {
    text: String,
    marks: Marks,
}

/// Where the parts end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Marks {
    id: u32,
    database: u32,
    user: u32,
    address: u32,
    /// The whole subject, with the separator before the message.
    all: u32,
}

/// The parts of a subject that are present.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Parts<'l> {
    pub(super) id: Option<&'l str>,
    pub(super) database: Option<&'l str>,
    pub(super) user: Option<&'l str>,
    pub(super) address: Option<&'l str>,
}

impl Subject {
    /// A client or a server, with its address in words, such as `unix:6432`.
    #[must_use]
    pub fn connection(id: Id, database: &str, user: &str, address: fmt::Arguments<'_>) -> Self {
        Self::at(id, database, user, |text| put(text, address))
    }

    /// A client or a server over TCP: as [`Subject::connection`] with the address written out, at a fifth of the cost. Each login
    /// writes two such lines.
    #[must_use]
    pub fn connection_over_tcp(id: Id, database: &str, user: &str, address: SocketAddr) -> Self {
        Self::at(id, database, user, |text| match address {
            SocketAddr::V4(address) => {
                let [first, rest @ ..] = address.ip().octets();
                let mut digits = itoa::Buffer::new();
                text.push_str(digits.format(first));
                for octet in rest {
                    text.push('.');
                    text.push_str(digits.format(octet));
                }
                text.push(':');
                text.push_str(digits.format(address.port()));
            }
            SocketAddr::V6(address) => put(text, format_args!("{address}")),
        })
    }

    fn at(id: Id, database: &str, user: &str, address: impl FnOnce(&mut String)) -> Self {
        let mut subject = Self { text: String::with_capacity(USUAL_BYTES), marks: Marks::default() };
        put(&mut subject.text, format_args!("{id}"));
        subject.marks.id = subject.end();
        subject.text.push_str(": ");
        subject.put_names(database, user);
        subject.text.push('@');
        address(&mut subject.text);
        subject.marks.address = subject.end();
        subject.text.push(' ');
        subject.marks.all = subject.end();
        subject
    }

    /// A connection of which nothing but its id is known.
    #[must_use]
    pub fn id(id: Id) -> Self {
        let mut subject = Self::default();
        put(&mut subject.text, format_args!("{id}"));
        subject.marks.id = subject.end();
        subject.text.push_str(": ");
        subject.marks.all = subject.end();
        subject
    }

    /// The pool of a database and a user.
    #[must_use]
    pub fn pool(database: &str, user: &str) -> Self {
        let mut subject = Self::default();
        subject.put_names(database, user);
        subject.text.push(' ');
        subject.marks.all = subject.end();
        subject
    }

    fn put_names(&mut self, database: &str, user: &str) {
        self.text.push_str(database);
        self.marks.database = self.end();
        self.text.push('/');
        self.text.push_str(user);
        self.marks.user = self.end();
    }

    fn end(&self) -> u32 {
        self.text.len() as u32
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn marks(&self) -> Marks {
        self.marks
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Marks {
    /// Divides a line that begins with the subject into the parts of the subject and the message.
    pub(super) fn part(self, line: &str) -> (Parts<'_>, &str) {
        let cut = |from: u32, to: u32| (to > 0).then(|| &line[from as usize..to as usize]);
        let database = if self.id > 0 { self.id + 2 } else { 0 };
        let parts = Parts {
            id: cut(0, self.id),
            database: cut(database, self.database),
            user: cut(self.database + 1, self.user),
            address: cut(self.user + 1, self.address),
        };
        (parts, &line[self.all as usize..])
    }
}

fn put(text: &mut String, part: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

/// Nearly all subjects fit.
const USUAL_BYTES: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(subject: &Subject) -> (Parts<'_>, &str) {
        subject.marks().part(&subject.text)
    }

    #[test]
    fn a_subject_is_written_as_pgbouncer_writes_it_and_known_by_its_parts() {
        let client = Subject::connection(Id::Client(42), "shop", "ann", format_args!("{}:{}", "10.0.0.1", 5000));
        assert_eq!(client.to_string(), "C-0x2a: shop/ann@10.0.0.1:5000 ");
        let (told, rest) = parts(&client);
        assert_eq!((told.id, told.database, told.user), (Some("C-0x2a"), Some("shop"), Some("ann")));
        assert_eq!((told.address, rest), (Some("10.0.0.1:5000"), ""));
        let pool = Subject::pool("shop", "ann");
        assert_eq!(pool.to_string(), "shop/ann ");
        let told = parts(&pool).0;
        assert_eq!(told, Parts { database: Some("shop"), user: Some("ann"), ..Parts::default() });
        let alone = Subject::id(Id::Client(1));
        assert_eq!(alone.to_string(), "C-0x1: ");
        assert_eq!(parts(&alone).0, Parts { id: Some("C-0x1"), ..Parts::default() });
        assert_eq!(parts(&Subject::default()), (Parts::default(), ""));
    }

    #[test]
    fn an_address_of_tcp_is_written_as_the_library_writes_it() {
        for address in ["0.0.0.0:0", "10.0.0.1:5000", "255.255.255.255:65535", "[::1]:6432", "[fe80::1%3]:1"] {
            let parsed: SocketAddr = address.parse().expect("an address");
            let told = Subject::connection_over_tcp(Id::Client(1), "d", "u", parsed);
            assert_eq!(told, Subject::connection(Id::Client(1), "d", "u", format_args!("{parsed}")));
            assert_eq!(parts(&told).0.address, Some(address));
        }
    }

    #[test]
    fn a_name_with_any_character_stays_one_name() {
        let subject = Subject::connection(Id::Server(1), "a/b@c: ", "S-0x2: d/\u{e4}@", format_args!("unix:6432"));
        let told = parts(&subject).0;
        assert_eq!((told.id, told.database, told.user), (Some("S-0x1"), Some("a/b@c: "), Some("S-0x2: d/\u{e4}@")));
        assert_eq!(told.address, Some("unix:6432"));
    }
}
