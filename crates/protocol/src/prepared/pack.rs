//! Names, server statements and statements as values that go to another process.
//!
//! Always true: a statement keeps its number, and with it the name that servers know it by; it is written once however
//! many hold it. What cannot be unpacked for lack of room is `None`, and its holder is disconnected.
//! Not here: what else goes along (`worker::handover::parcel`).

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::names::{Doubts, Named, Names};
use super::own::Held as Own;
use super::registry::StatementRegistry;
use super::server_statements::{CatalogVersion, Held, Pending, ServerStatements, State, Twice};
use super::shape::Shape;
use super::statement::{Entry, Mark, Statement};
use crate::pack::Packed;

/// The statements that are held by what has been packed, by their numbers.
#[derive(Debug, Default)]
pub struct Gathered(BTreeMap<u64, Option<Rc<Entry>>>);

impl Gathered {
    fn add(&mut self, statement: &Statement) -> u64 {
        self.0.entry(statement.id()).or_insert_with(|| Some(statement.entry().clone()));
        statement.id()
    }

    fn add_mark(&mut self, mark: &Mark) -> u64 {
        self.0.entry(mark.id()).or_insert_with(|| mark.entry());
        mark.id()
    }

    /// Packs the statements.
    #[must_use]
    pub fn pack(&self) -> Vec<PackedStatement> {
        let pack = |(id, entry): (&u64, &Option<Rc<Entry>>)| PackedStatement {
            id: *id,
            text: entry.as_ref().map(|entry| (&entry.text).into()).unwrap_or_default(),
            dialect: entry.as_ref().map(|entry| (&entry.dialect).into()).unwrap_or_default(),
        };
        self.0.iter().map(pack).collect()
    }
}

/// A packed statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedStatement {
    /// Its number.
    pub id: u64,
    /// Empty where the statement is forgotten but a server may have it: its number must not be used again.
    text: Packed,
    dialect: Packed,
}

/// Where statements are looked up while something is unpacked.
#[derive(Debug)]
pub struct Unpacking<'a> {
    /// All packed statements, by their numbers.
    pub packed: &'a BTreeMap<u64, PackedStatement>,
    /// The statements that have been unpacked.
    pub found: &'a mut BTreeMap<u64, Statement>,
    /// The registry that keeps them.
    pub statement_registry: &'a mut StatementRegistry,
    /// The account of the client that holds them.
    pub account: &'a Account,
}

impl Unpacking<'_> {
    fn statement(&mut self, id: u64) -> Option<Statement> {
        if let Some(found) = self.found.get(&id) {
            return Some(found.clone());
        }
        let packed = self.packed.get(&id).filter(|packed| !packed.text.0.is_empty())?;
        let statement = self.statement_registry.take_in(id, &packed.text.0, packed.dialect.0.as_slice().into())?;
        self.found.insert(id, statement.clone());
        Some(statement)
    }

    fn mark(&mut self, id: u64) -> Mark {
        self.statement(id).map_or_else(|| Mark::of_forgotten(id), |statement| statement.mark())
    }
}

/// The packed names of a client.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackedNames {
    named: Vec<(Packed, PackedNamed)>,
    failed: Vec<Packed>,
    #[serde(default)]
    doubts: Doubts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PackedNamed {
    statement: u64,
    step: u64,
    is_reused: bool,
    #[serde(default)]
    told: Shape,
}

impl PackedNamed {
    fn new(named: &Named, gathered: &mut Gathered) -> Self {
        let told = named.told;
        Self { statement: gathered.add(&named.statement), step: named.step, is_reused: named.is_reused, told }
    }

    fn unpack(self, name: &[u8], from: &mut Unpacking<'_>) -> Option<Named> {
        let Self { statement, step, is_reused, told } = self;
        let statement = from.statement(statement)?;
        let charge =
            from.statement_registry.charge_name(from.account, name, statement.text(), statement.dialect()).ok()?;
        Some(Named { statement, step, is_reused, charge, told })
    }
}

impl Names {
    /// Packs the names.
    pub fn pack(&self, gathered: &mut Gathered) -> PackedNames {
        let named = self.named.iter().map(|(name, named)| (name.into(), PackedNamed::new(named, gathered)));
        let failed = self.failed.iter().map(|name| name.into()).collect();
        PackedNames { named: named.collect(), failed, doubts: self.doubts.clone() }
    }

    /// Unpacks the names.
    pub fn unpack(packed: PackedNames, from: &mut Unpacking<'_>) -> Option<Self> {
        let mut names = Self::default();
        names.doubts = packed.doubts;
        for (Packed(name), named) in packed.named {
            names.named.insert(name.as_slice().into(), named.unpack(&name, from)?);
        }
        names.failed = packed.failed.into_iter().map(Into::into).collect();
        Some(names)
    }
}

/// The packed statements of one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackedServerStatements {
    held: Vec<PackedHeld>,
    pending: Vec<PackedPending>,
    taken: Vec<u64>,
    clock: u64,
    loan: u64,
    /// The names of its client under which the server may have statements.
    #[serde(default)]
    own: Vec<Packed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PackedHeld {
    statement: u64,
    used: u64,
    state: State,
    loan: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum PackedPending {
    Parse { statement: u64, step: u64, name: Option<Packed> },
    Close { id: u64, epoch: u64, was: Option<PackedHeld> },
    Found { step: u64, name: Packed },
    Dropped { name: Packed, was: Option<PackedNamed> },
    Unnamed,
    Twice { name: Packed, step: u64, contested: Option<u64>, state: State, was: Option<PackedNamed> },
}

impl PackedHeld {
    fn new(held: &Held, gathered: &mut Gathered) -> Self {
        Self { statement: gathered.add_mark(&held.mark), used: held.used, state: held.state, loan: held.loan }
    }

    fn unpack(self, from: &mut Unpacking<'_>) -> Held {
        let Self { statement, used, state, loan } = self;
        // What it was described as is asked again.
        Held {
            mark: from.mark(statement),
            used,
            state,
            loan,
            catalog_version: CatalogVersion::default(),
            shape: Shape::default(),
            born: used,
        }
    }
}

impl PackedPending {
    fn new(pending: &Pending, gathered: &mut Gathered) -> Self {
        match pending {
            Pending::Parse { statement, step, name } => {
                Self::Parse { statement: *statement, step: *step, name: name.as_ref().map(Into::into) }
            }
            Pending::Close { id, epoch, was } => {
                Self::Close { id: *id, epoch: *epoch, was: was.as_ref().map(|was| PackedHeld::new(was, gathered)) }
            }
            // An own name's statement is in doubt there in any case.
            Pending::Own { name, step: step @ 1.., .. } | Pending::Found { name, step } => {
                Self::Found { step: *step, name: name.into() }
            }
            Pending::Hidden | Pending::Own { .. } | Pending::Describe(_) => Self::Unnamed,
            Pending::Twice(Twice { name, step, contested, state, was }) => Self::Twice {
                name: name.into(),
                step: *step,
                contested: *contested,
                state: *state,
                was: was.as_ref().map(|was| PackedNamed::new(was, gathered)),
            },
            Pending::Dropped { name, was } => {
                Self::Dropped { name: name.into(), was: was.as_ref().map(|was| PackedNamed::new(was, gathered)) }
            }
        }
    }

    fn unpack(self, from: &mut Unpacking<'_>) -> Option<Pending> {
        Some(match self {
            Self::Parse { statement, step, name } => Pending::Parse { statement, step, name: name.map(Into::into) },
            Self::Close { id, epoch, was } => Pending::Close { id, epoch, was: was.map(|was| was.unpack(from)) },
            Self::Unnamed => Pending::Hidden,
            Self::Twice { name: Packed(name), step, contested, state, was } => {
                let was = match was {
                    Some(was) => Some(was.unpack(&name, from)?),
                    None => None,
                };
                Pending::Twice(Twice { name: name.into(), step, contested, state, was })
            }
            Self::Found { step, name } => Pending::Found { step, name: name.into() },
            Self::Dropped { name, was: None } => Pending::Dropped { name: name.into(), was: None },
            Self::Dropped { name: Packed(name), was: Some(was) } => {
                Pending::Dropped { was: Some(was.unpack(&name, from)?), name: name.into() }
            }
        })
    }
}

impl ServerStatements {
    /// Packs the statements of a server.
    pub fn pack(&self, gathered: &mut Gathered) -> PackedServerStatements {
        PackedServerStatements {
            held: self.held.values().map(|held| PackedHeld::new(held, gathered)).collect(),
            pending: self.pending.iter().map(|pending| PackedPending::new(pending, gathered)).collect(),
            taken: self.taken.clone(),
            clock: self.clock,
            loan: self.loan,
            own: self.own.names.keys().map(|name| name.into()).collect(),
        }
    }

    /// Unpacks the statements of a server.
    pub fn unpack(packed: PackedServerStatements, from: &mut Unpacking<'_>) -> Option<Self> {
        let PackedServerStatements { held, pending, taken, clock, loan, own } = packed;
        let mut server_statements = Self { taken, clock, loan, ..Self::default() };
        server_statements.own.names = own.into_iter().map(|Packed(name)| (name.into(), Own::DOUBTED)).collect();
        for held in held {
            server_statements.put(held.unpack(from));
        }
        server_statements.pending = pending.into_iter().map(|pending| pending.unpack(from)).collect::<Option<_>>()?;
        Some(server_statements)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ask, Sides, Tally, Way};
    use super::*;
    use crate::exchange::Exchange;

    /// A server has one statement and was sent another; the client has named both and closed one.
    #[test]
    fn a_pair_goes_on_in_another_process_where_it_stood() {
        let mut statement_registry = StatementRegistry::new(1, 2);
        let (mut names, mut server_statements, mut exchange) =
            (Names::default(), ServerStatements::default(), Exchange::default());
        let (mut tally, mut out) = (Tally::default(), Vec::new());
        let dialect: Rc<[u8]> = Rc::from(&b"ISO\0"[..]);
        let tracked = crate::vars::Tracked::new([]);
        let mut ask = |names: &mut Names,
                       statement_registry: &mut StatementRegistry,
                       server_statements: &mut ServerStatements,
                       exchange: &mut Exchange,
                       ask,
                       bytes| {
            let dialect = dialect.clone();
            let mut sides = Sides {
                account: &Account::default(),
                names,
                statement_registry,
                exchange,
                dialect,
                tracked: &tracked,
                is_settled: true,
                is_by_sql: false,
                max: 10,
                follows: false,
                catalog_version: CatalogVersion::default(),
                tally: &mut tally,
                behind: b"",
                out: &mut out,
            };
            server_statements.ask(ask, bytes, &mut sides).expect("it can go on")
        };
        ask(
            &mut names,
            &mut statement_registry,
            &mut server_statements,
            &mut exchange,
            Ask::Parse { name: b"a", text: b"select 1\0\0\0" },
            13,
        );
        exchange.answered(wire::backend::PARSE_COMPLETE, &[]).expect("owed");
        server_statements.settle(&mut exchange, Some(&mut names));
        ask(
            &mut names,
            &mut statement_registry,
            &mut server_statements,
            &mut exchange,
            Ask::Parse { name: b"b", text: b"select 2\0\0\0" },
            13,
        );
        ask(&mut names, &mut statement_registry, &mut server_statements, &mut exchange, Ask::Close { name: b"a" }, 3);

        let mut gathered = Gathered::default();
        let (packed_names, packed_server_statements) =
            (names.pack(&mut gathered), server_statements.pack(&mut gathered));
        let packed: BTreeMap<_, _> = gathered.pack().into_iter().map(|packed| (packed.id, packed)).collect();
        assert_eq!(packed.keys().copied().collect::<Vec<_>>(), [1, 3]);
        let mut other = StatementRegistry::new(2, 3);
        other.begin_above(3);
        let (mut found, statement_registry) = (BTreeMap::new(), &mut other);
        let mut from =
            Unpacking { packed: &packed, found: &mut found, statement_registry, account: &Account::default() };
        let mut names = Names::unpack(packed_names.clone(), &mut from).expect("there is room");
        let mut server_statements =
            ServerStatements::unpack(packed_server_statements, &mut from).expect("there is room");
        let again = (names.pack(&mut Gathered::default()), server_statements.pack(&mut Gathered::default()));
        assert_eq!(format!("{again:?}"), format!("{:?}", (&packed_names, server_statements.pack(&mut gathered))));

        // The second Parse fails: the Close behind it was skipped as well, so its name is there again.
        exchange.answered(wire::backend::ERROR_RESPONSE, &[]).expect("owed");
        server_statements.settle(&mut exchange, Some(&mut names));
        assert_eq!((names.count(), names.has(b"a"), names.has_failed(b"b")), (1, true, true));
        let mut exchange = Exchange::default();
        out.clear();
        let bind = Ask::Bind { portal: b"", name: b"a", end: 3 };
        let mut sides = Sides {
            account: &Account::default(),
            names: &mut names,
            statement_registry: &mut other,
            exchange: &mut exchange,
            dialect,
            tracked: &tracked,
            is_settled: true,
            is_by_sql: false,
            catalog_version: CatalogVersion::default(),
            max: 10,
            follows: false,
            tally: &mut tally,
            behind: b"",
            out: &mut out,
        };
        assert_eq!(server_statements.ask(bind, 9, &mut sides), Ok(Way::Replaced(3)));
        assert_eq!(out.len(), 1, "the server has it already: {out:?}");
        assert_eq!(other.add(b"select 3\0\0\0", &Rc::from(&b""[..])).expect("there is room").id(), 5);
    }

    /// In the next process, too, the server is asked for it, and reports the error.
    #[test]
    fn a_name_whose_parse_was_skipped_is_handed_over() {
        let mut names = Names::default();
        names.skip(b"a");
        let mut from = Unpacking {
            packed: &BTreeMap::new(),
            found: &mut BTreeMap::new(),
            statement_registry: &mut StatementRegistry::new(1, 1),
            account: &Account::default(),
        };
        let names = Names::unpack(names.pack(&mut Gathered::default()), &mut from).expect("there is room");
        assert!(names.has_failed(b"a") && !names.has(b"a"));
    }

    /// A server still has a statement that is forgotten here: a statement prepared in the other process must not get its number.
    #[test]
    fn what_is_forgotten_keeps_its_number() {
        let (mut statement_registry, mut server_statements) =
            (StatementRegistry::new(1, 1), ServerStatements::default());
        let dialect: Rc<[u8]> = Rc::from(&b"ISO\0"[..]);
        for text in [vec![b'x'; 2 << 20], b"select 1\0\0\0".to_vec(), vec![b'x'; 2 << 20]] {
            let statement = statement_registry.find_or_add(&text, &dialect).expect("there is room");
            let (mark, used) = (statement.mark(), server_statements.tick());
            let (catalog_version, shape) = (CatalogVersion::default(), Shape::default());
            server_statements.put(Held { mark, used, state: State::Sure, loan: 0, catalog_version, shape, born: used });
        }
        let mut gathered = Gathered::default();
        let packed_server_statements = server_statements.pack(&mut gathered);
        let packed: BTreeMap<_, _> = gathered.pack().into_iter().map(|packed| (packed.id, packed)).collect();
        assert_eq!(packed.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        let (mut other, mut found) = (StatementRegistry::new(1, 1), BTreeMap::new());
        other.begin_above(3);
        let mut from = Unpacking {
            packed: &packed,
            found: &mut found,
            statement_registry: &mut other,
            account: &Account::default(),
        };
        let server_statements = ServerStatements::unpack(packed_server_statements, &mut from).expect("it goes on");
        drop(found);
        assert_eq!((server_statements.count(), other.count()), (3, 1));
        let prepared = other.find_or_add(b"select 1\0\0\0", &dialect).expect("there is room");
        assert_eq!((prepared.id(), other.add(b"select 2\0\0\0", &dialect).expect("there is room").id()), (2, 4));
        drop((prepared, server_statements));
        assert_eq!((other.count(), other.bytes()), (0, 0));
    }
}
