//! The subject of a log line: how it is written before the message, and where each of its parts is.
//!
//! Always true: the text is what PgBouncer writes; the parts are found by the offsets where they were written and not
//! by parsing the text, because a client may put any character into the names of its database and user.
//! Not here: the format of whole lines (`log`, `json`).

use std::fmt::{self, Write as _};

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
    /// A client or a server.
    #[must_use]
    pub fn connection(id: Id, database: &str, user: &str, address: fmt::Arguments<'_>) -> Self {
        let mut subject = Self { text: String::with_capacity(USUAL_BYTES), marks: Marks::default() };
        subject.marks.id = subject.put(format_args!("{id}"));
        subject.put(format_args!(": "));
        subject.put_names(database, user);
        subject.put(format_args!("@"));
        subject.marks.address = subject.put(address);
        subject.marks.all = subject.put(format_args!(" "));
        subject
    }

    /// A connection of which nothing but its id is known.
    #[must_use]
    pub fn id(id: Id) -> Self {
        let mut subject = Self::default();
        subject.marks.id = subject.put(format_args!("{id}"));
        subject.marks.all = subject.put(format_args!(": "));
        subject
    }

    /// The pool of a database and a user.
    #[must_use]
    pub fn pool(database: &str, user: &str) -> Self {
        let mut subject = Self::default();
        subject.put_names(database, user);
        subject.marks.all = subject.put(format_args!(" "));
        subject
    }

    fn put_names(&mut self, database: &str, user: &str) {
        self.marks.database = self.put(format_args!("{database}"));
        self.put(format_args!("/"));
        self.marks.user = self.put(format_args!("{user}"));
    }

    /// Writes a part and returns where it ends.
    fn put(&mut self, part: fmt::Arguments<'_>) -> u32 {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(part);
        self.text.len() as u32
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
    fn a_name_with_any_character_stays_one_name() {
        let subject = Subject::connection(Id::Server(1), "a/b@c: ", "S-0x2: d/\u{e4}@", format_args!("unix:6432"));
        let told = parts(&subject).0;
        assert_eq!((told.id, told.database, told.user), (Some("S-0x1"), Some("a/b@c: "), Some("S-0x2: d/\u{e4}@")));
        assert_eq!(told.address, Some("unix:6432"));
    }
}
