//! The statements that all clients of a worker have prepared, each text once unless it is very long.
//!
//! Always true: a text longer than [`SHARED_BYTES_MAX`] is not scanned here, so that no turn takes that long; two clients
//! share a statement only if it means the same to both: the same text and types, read under the same parameters
//! (`'1/2/2026'::date` is another day under another DateStyle, and is read when it is prepared); a number is never used
//! twice; a statement that nobody holds any more is gone; the bytes held stay under [`super::HELD_BYTES_MAX`].
//! Not here: who holds a statement (`names`, `server_statements`, `statement`), and who is charged how much for it (`account`).

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use super::Bytes;
use super::account::{Account, Charge, Room};
use super::statement::{Entry, Statement, Text};
use crate::fault::Fault;
use crate::hash::hash_of;

/// All statements that somebody holds.
#[derive(Debug)]
pub struct StatementRegistry {
    /// By the hash of text and parameters, then by number. Statements that nobody holds any more are swept out now and then.
    known: BTreeMap<(u64, u64), Weak<Entry>>,
    next: u64,
    step: u64,
    room: Rc<Room>,
    sweep_at: usize,
    /// The hashes of texts that came without a name, each at its own place; empty until one comes.
    came: Vec<u64>,
    /// An empty list for what a server is sent because of one message: most messages need no memory of their own for it.
    spare: Vec<Bytes>,
}

impl StatementRegistry {
    /// An empty registry that numbers its statements `first`, `first + step`, and so on. The numbers of the workers
    /// interleave, so that a number means the same statement on every server of the process.
    #[must_use]
    pub fn new(first: u64, step: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            next: first,
            step,
            room: Rc::default(),
            sweep_at: SWEEP_AT_MIN,
            came: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// An empty list for what a server is sent because of one message.
    pub(crate) fn take_list(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.spare)
    }

    /// Keeps the list for the next message, unless it has become long.
    pub(crate) fn keep_list(&mut self, mut list: Vec<Bytes>) {
        list.clear();
        if list.capacity() <= SPARE_MAX {
            self.spare = list;
        }
    }

    /// Returns the statement of this text, if it is there or there is room for it. A very long text always makes a new statement.
    pub fn find_or_add(&mut self, text: &[u8], dialect: &Rc<[u8]>) -> Option<Statement> {
        if text.len() > SHARED_BYTES_MAX {
            return self.add(text, dialect);
        }
        // One text prepared under many different parameters does not collide. Texts that are made to collide are compared.
        let hash = hash_of((text, &**dialect));
        let like = self.known.range((hash, 0)..=(hash, u64::MAX)).filter_map(|(_, known)| known.upgrade());
        let is_same = |known: &Rc<Entry>| *known.text == *text && *known.dialect == **dialect;
        if let Some(known) = like.into_iter().find(is_same) {
            return Some(Statement::claim(known));
        }
        let statement = self.add(text, dialect)?;
        self.sweep();
        self.known.insert((hash, statement.id()), statement.is_to_be_found());
        Some(statement)
    }

    /// Notes the text of an unnamed Parse. Returns whether it has come before, with not too many others since.
    pub fn comes_again(&mut self, text: &[u8]) -> bool {
        let hash = hash_of(text);
        if self.came.is_empty() {
            self.came.resize(CAME_MAX, 0);
        }
        let place = &mut self.came[hash as usize % CAME_MAX];
        std::mem::replace(place, hash) == hash
    }

    /// Adds a statement of this text that is not shared, if there is room for it.
    pub fn add(&mut self, text: &[u8], dialect: &Rc<[u8]>) -> Option<Statement> {
        let text = self.keep(text, has_literals(text))?;
        self.number_next(text, dialect)
    }

    /// Returns the statement of the same text under these parameters, if it is there or there is room for it.
    pub(super) fn find_or_add_like(&mut self, like: &Statement, dialect: &Rc<[u8]>) -> Option<Statement> {
        match like.text().len() {
            ..=SHARED_BYTES_MAX => self.find_or_add(like.text(), dialect),
            _ => self.add_like(like, dialect),
        }
    }

    /// Adds a statement of the same text that is not shared, if there is room for it. A very long text is not copied.
    pub(super) fn add_like(&mut self, like: &Statement, dialect: &Rc<[u8]>) -> Option<Statement> {
        let text = match like.text().len() {
            ..=SHARED_BYTES_MAX => self.keep(like.text(), like.has_literals())?,
            _ => like.shared_text(),
        };
        self.number_next(text, dialect)
    }

    fn keep(&self, text: &[u8], has_literals: bool) -> Option<Text> {
        let charge = Rc::new(self.charge_all(text.len())?);
        Some(Text { bytes: text.into(), has_literals, charge })
    }

    fn number_next(&mut self, text: Text, dialect: &Rc<[u8]>) -> Option<Statement> {
        let statement = self.number(self.next, text, dialect)?;
        self.next += self.step;
        Some(statement)
    }

    fn number(&self, id: u64, text: Text, dialect: &Rc<[u8]>) -> Option<Statement> {
        let charge = self.charge_all(dialect.len() + STATEMENT_BYTES)?;
        Some(Statement::new(id, text, dialect.clone(), charge))
    }

    /// Adds a statement of another process under its number, if there is room for it. New statements must have numbers above it.
    pub(super) fn take_in(&mut self, id: u64, text: &[u8], dialect: Rc<[u8]>) -> Option<Statement> {
        let text = self.keep(text, has_literals(text))?;
        let statement = self.number(id, text, &dialect)?;
        if statement.text().len() <= SHARED_BYTES_MAX {
            let hash = hash_of((&**statement.text(), &**statement.dialect()));
            self.known.insert((hash, id), statement.is_to_be_found());
        }
        Some(statement)
    }

    /// From now on new statements have numbers above this one.
    pub fn begin_above(&mut self, id: u64) {
        let missing = (id + 1).saturating_sub(self.next);
        self.next += missing.div_ceil(self.step) * self.step;
    }

    /// Charges this many bytes to no client's account.
    pub(super) fn charge_all(&self, bytes: usize) -> Option<Charge> {
        Charge::of_all(&self.room, bytes)
    }

    /// From now on one client may hold this many bytes; 0 is no limit.
    pub fn limit_clients(&self, bytes_max: usize) {
        self.room.limit_clients(bytes_max);
    }

    /// All clients together may hold this many bytes, but no more than [`super::HELD_BYTES_MAX`].
    pub fn limit_all(&self, bytes_max: usize) {
        self.room.limit_all(bytes_max);
    }

    /// Charges this many bytes to a client's account.
    ///
    /// # Errors
    /// The client holds as much as it may, or all clients together do.
    pub fn charge(&self, account: &Account, bytes: usize) -> Result<Charge, Fault> {
        Charge::new(&self.room, account, bytes, 0)
    }

    /// Charges a client for giving a name to a statement: each client that shares a statement is charged all of it.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn charge_name(
        &self,
        account: &Account,
        name: &[u8],
        text: &[u8],
        dialect: &[u8],
    ) -> Result<Charge, Fault> {
        Charge::new(&self.room, account, name.len() + NAME_BYTES, shared_bytes(text, dialect))
    }

    /// The bytes that are held: texts, names, and what is being received.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.room.held()
    }

    /// The number of statements that can be shared and that somebody holds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.values().filter(|known| known.strong_count() > 0).count()
    }

    /// Runs once in a while, so that its cost for each statement is constant.
    fn sweep(&mut self) {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, known| known.strong_count() > 0);
            self.sweep_at = SWEEP_AT_MIN.max(2 * self.known.len());
        }
    }
}

/// The bytes of a statement that are charged to each client that has given it a name, although they exist once for all.
pub(super) fn shared_bytes(text: &[u8], dialect: &[u8]) -> usize {
    STATEMENT_BYTES + text.len() + dialect.len()
}

/// Whether a text has literals. It ends with its zero byte; behind that are the types of its parameters. A very long one
/// is taken to have some, which is true of most.
pub(super) fn has_literals(text: &[u8]) -> bool {
    if text.len() > SHARED_BYTES_MAX {
        return true;
    }
    let sql = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_quote = |at: usize| match sql[at] {
        b'\'' | b'\\' | 0x80.. => true,
        b'$' => !sql.get(at + 1).is_some_and(u8::is_ascii_digit),
        _ => false,
    };
    (0..sql.len()).any(is_quote)
}

/// A longer text is not hashed, which takes a millisecond for each megabyte, and so not shared: each client has its own.
const SHARED_BYTES_MAX: usize = 1 << 20;
/// The approximate size of a statement beside its text, with its places in tables.
const STATEMENT_BYTES: usize = 384;
/// How many texts of unnamed statements are remembered, by their hashes.
const CAME_MAX: usize = 4096;
/// The table is not swept below this size.
const SWEEP_AT_MIN: usize = 64;
/// The approximate size of a name beside its bytes.
const NAME_BYTES: usize = 128;

/// The longest list that is kept: a text may name very many statements.
const SPARE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// One short text under many different long settings was not charged, and each statement was compared with all earlier ones.
    #[test]
    fn what_a_text_is_read_under_counts_and_tells_it_from_others() {
        let mut statement_registry = StatementRegistry::new(1, 1);
        let dialect = |number: usize| -> Rc<[u8]> { format!("{}{number}", "d".repeat(10_000)).into_bytes().into() };
        let held: Vec<_> =
            (0..100).map(|number| statement_registry.find_or_add(b"select 1", &dialect(number))).collect();
        assert!(held.iter().all(Option::is_some) && statement_registry.bytes() > 1_000_000);
        let hashes: std::collections::BTreeSet<u64> = statement_registry.known.keys().map(|(hash, _)| *hash).collect();
        assert_eq!(hashes.len(), 100);
        let again = statement_registry.find_or_add(b"select 1", &dialect(7)).expect("it is there");
        assert_eq!((again.id(), statement_registry.count()), (held[7].as_ref().expect("it is there").id(), 100));
    }

    /// A Parse of 30 MB was hashed and scanned for literals in one turn, and again whenever its client had set something:
    /// 49 ms each time.
    #[test]
    fn a_very_long_text_is_each_client_s_own_and_is_kept_once_for_it() {
        let mut statement_registry = StatementRegistry::new(1, 1);
        let dialects = ["a", "b"].map(|dialect| Rc::<[u8]>::from(dialect.as_bytes()));
        for (length, is_shared) in [(SHARED_BYTES_MAX, true), (SHARED_BYTES_MAX + 1, false)] {
            let text = vec![b'x'; length];
            let held = [(); 2].map(|()| statement_registry.find_or_add(&text, &dialects[0]).expect("room"));
            assert_eq!((held[0].id() == held[1].id(), held[0].has_literals()), (is_shared, !is_shared));
            assert_eq!(statement_registry.known.len(), usize::from(is_shared));
            let before = statement_registry.bytes();
            let like = [(); 100].map(|()| statement_registry.find_or_add_like(&held[0], &dialects[1]).expect("room"));
            assert_eq!(like[0].id() == like[1].id(), is_shared);
            assert!(like.iter().all(|like| like.dialect() == &dialects[1] && like.text() == held[0].text()));
            if !is_shared {
                assert!(like.iter().all(|like| Rc::ptr_eq(like.text(), held[0].text())));
                assert!(statement_registry.bytes() - before < 100 * 2 * STATEMENT_BYTES);
            }
            drop((like, held));
            statement_registry.known.clear();
        }
        assert_eq!(statement_registry.bytes(), 0);
    }

    #[test]
    fn texts_that_collide_are_told_apart() {
        let mut statement_registry = StatementRegistry::new(1, 1);
        let dialects = ["a", "b"].map(|dialect| Rc::<[u8]>::from(dialect.as_bytes()));
        let hash = hash_of((&b"select 1"[..], &*dialects[0]));
        let others = [(&b"select 2"[..], &dialects[0]), (b"select 1", &dialects[1])]
            .map(|(text, dialect)| statement_registry.add(text, dialect).expect("room"));
        for other in &others {
            statement_registry.known.insert((hash, other.id()), other.is_to_be_found());
        }
        let own = statement_registry.find_or_add(b"select 1", &dialects[0]).expect("room");
        assert!(others.iter().all(|other| other.id() != own.id()));
    }

    #[test]
    fn what_nobody_holds_any_more_is_swept_out_in_time() {
        let (mut statement_registry, dialect) = (StatementRegistry::new(1, 1), Rc::<[u8]>::from(&b""[..]));
        let text = |number: usize| format!("select {number}").into_bytes();
        for number in 0..1000 {
            drop(statement_registry.find_or_add(&text(number), &dialect));
            assert!(statement_registry.known.len() <= SWEEP_AT_MIN);
        }
        let held: Vec<_> = (0..1000).map(|number| statement_registry.find_or_add(&text(number), &dialect)).collect();
        assert_eq!((statement_registry.count(), statement_registry.known.len() >= 1000), (1000, true));
        assert!(statement_registry.sweep_at > 1000, "not for each that comes");
        drop(held);
        for number in 0..3000 {
            drop(statement_registry.find_or_add(&text(number), &dialect));
            assert!(statement_registry.known.len() <= 2 * 1024);
        }
        assert!(statement_registry.known.len() <= SWEEP_AT_MIN && statement_registry.sweep_at == SWEEP_AT_MIN);
    }

    #[test]
    fn whoever_names_a_statement_is_charged_its_text_and_what_it_is_read_under() {
        let (statement_registry, account) = (StatementRegistry::new(1, 1), Account::default());
        let charge = statement_registry.charge_name(&account, b"name", b"text", b"dialect").expect("room");
        assert_eq!(account.held(), 4 + NAME_BYTES + STATEMENT_BYTES + 4 + 7);
        drop(charge);
        let charge = statement_registry.charge(&account, 100).expect("room");
        assert_eq!((account.held(), statement_registry.bytes()), (100, 100));
        drop(charge);
    }

    #[test]
    fn what_may_be_read_otherwise_has_literals() {
        for (text, has) in [
            (&b"select $1 + $2\0\0\0"[..], false),
            (b"select 1\0'", false),
            (b"select 'a'\0", true),
            (b"select $$a$$\0", true),
            (b"select $x$a$x$\0", true),
            (b"select 1 $\0", true),
            (b"select \\ \0", true),
            (b"select \xc3\xa9\0", true),
        ] {
            assert_eq!(has_literals(text), has, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_text_comes_again_if_not_too_many_others_have_come_since() {
        let mut statement_registry = StatementRegistry::new(1, 1);
        assert_eq!(
            [
                statement_registry.comes_again(b"a"),
                statement_registry.comes_again(b"b"),
                statement_registry.comes_again(b"a")
            ],
            [false, false, true]
        );
        for number in 0..100 * CAME_MAX {
            statement_registry.comes_again(number.to_string().as_bytes());
        }
        assert!(!statement_registry.comes_again(b"a"));
    }

    #[test]
    fn a_long_list_is_not_kept_for_the_next_message() {
        let mut statement_registry = StatementRegistry::new(1, 1);
        for (count, is_kept) in [(1, true), (10_000, false), (4, true)] {
            let mut list = statement_registry.take_list();
            assert!(list.is_empty());
            list.extend((0..count).map(|_| Bytes::Own(Vec::new())));
            statement_registry.keep_list(list);
            assert_eq!(statement_registry.spare.capacity() > 0, is_kept, "{count}");
        }
    }
}
