//! One statement, and which clients and servers have it.
//!
//! Always true: a statement that a client has ([`Statement`]) keeps its text; the mark of a server ([`Mark`]) keeps the
//! text only while there is room, and only of a statement that another client may find. A statement that is forgotten
//! here is not used any more on a server that has it, because its number is never used again; it is closed there when it
//! is the least recently used.
//! Not here: how a statement is found by its text (`registry`), which one is given up first when there is no room (`account`).

use std::cell::Cell;
use std::rc::{Rc, Weak};

use super::PREFIX;
use super::account::Charge;

/// A statement as servers know it, while it is in use.
#[derive(Clone, Debug)]
pub struct Statement(Rc<Entry>);

#[derive(Debug)]
pub(super) struct Entry {
    id: u64,
    name: Box<[u8]>,
    pub(super) text: Rc<[u8]>,
    pub(super) dialect: Rc<[u8]>,
    has_literals: bool,
    /// Whether a client that prepares the same text is given this statement.
    is_found: Cell<bool>,
    /// The number of marks of servers.
    servers: Cell<usize>,
    /// Since when only servers have it, by the clock of the room; 0 while a client has it.
    pub(super) unclaimed_since: Cell<u64>,
    /// For the text, which statements under other parameters may share.
    text_charge: Rc<Charge>,
    charge: Charge,
}

/// The text of a statement.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) bytes: Rc<[u8]>,
    pub(super) has_literals: bool,
    pub(super) charge: Rc<Charge>,
}

impl Statement {
    /// The size of each beside its text.
    pub const BYTES: usize = size_of::<Entry>();

    /// A new statement. `charge` is for everything but the text.
    pub(super) fn new(id: u64, text: Text, dialect: Rc<[u8]>, charge: Charge) -> Self {
        Self(Rc::new(Entry {
            id,
            name: name_of(id).into(),
            text: text.bytes,
            dialect,
            has_literals: text.has_literals,
            is_found: Cell::new(false),
            servers: Cell::new(0),
            unclaimed_since: Cell::new(0),
            text_charge: text.charge,
            charge,
        }))
    }

    /// A client needs a statement that only servers may have had.
    pub(super) fn claim(entry: Rc<Entry>) -> Self {
        entry.charge.room().claim(&entry);
        Self(entry)
    }

    /// From now on, a client that prepares the same text is given this statement.
    pub(super) fn is_to_be_found(&self) -> Weak<Entry> {
        self.0.is_found.set(true);
        Rc::downgrade(&self.0)
    }

    /// A server has the statement.
    pub(super) fn mark(&self) -> Mark {
        self.0.servers.set(self.0.servers.get() + 1);
        Mark { id: self.0.id, entry: Rc::downgrade(&self.0) }
    }

    /// Its text, to be shared by a statement under other parameters.
    pub(super) fn shared_text(&self) -> Text {
        let Entry { text, has_literals, text_charge, .. } = &*self.0;
        Text { bytes: text.clone(), has_literals: *has_literals, charge: text_charge.clone() }
    }

    pub(super) fn entry(&self) -> &Rc<Entry> {
        &self.0
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Its name on every server.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// The query, its zero byte, and the types of its parameters.
    #[must_use]
    pub fn text(&self) -> &Rc<[u8]> {
        &self.0.text
    }

    /// Whether its text may have anything that is read differently under other parameters: a string, or a character beyond ASCII.
    #[must_use]
    pub fn has_literals(&self) -> bool {
        self.0.has_literals
    }

    /// The parameters under which it is read.
    #[must_use]
    pub fn dialect(&self) -> &Rc<[u8]> {
        &self.0.dialect
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // Nobody else needs the statement.
        if Rc::strong_count(&self.0) == 1 && self.0.is_found.get() && self.0.servers.get() > 0 {
            self.0.charge.room().unclaim(self.0.clone());
        }
    }
}

impl Entry {
    /// The bytes that are freed once nobody has it.
    pub(super) fn bytes(&self) -> usize {
        // A statement that can be found shares its text with no other.
        debug_assert!(Rc::strong_count(&self.text_charge) == 1, "the text of {} is another's, too", self.id);
        self.charge.bytes() + self.text_charge.bytes()
    }
}

/// Marks that a server has a statement, or may have it.
#[derive(Debug)]
pub(super) struct Mark {
    id: u64,
    entry: Weak<Entry>,
}

impl Mark {
    /// A server has a statement that is forgotten here.
    pub(super) fn of_forgotten(id: u64) -> Self {
        Self { id, entry: Weak::new() }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Its name on every server.
    pub(super) fn name(&self) -> Vec<u8> {
        name_of(self.id)
    }

    /// The statement, unless it is forgotten.
    pub(super) fn entry(&self) -> Option<Rc<Entry>> {
        self.entry.upgrade()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Some(entry) = self.entry() else { return };
        entry.servers.set(entry.servers.get() - 1);
        if entry.servers.get() == 0 {
            // The statement is freed, unless a client has it.
            entry.charge.room().claim(&entry);
        }
    }
}

fn name_of(id: u64) -> Vec<u8> {
    format!("{PREFIX}{id}").into_bytes()
}
