//! Statements that drivers send by themselves, run by many clients on few servers and compared with direct connections.
//!
//! Always true: some clients disconnect and reconnect; each client gets the same answers on both sides, and its session has the
//! same state after each step; in the end no client keeps a server unless its script says so.
//! Not here: the scripts (`tests/habits`), and what they cost (`cargo xtask bench --only habits`).

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use base::Random;
use habits::{Draw, Habit, Line, Speaker, Statement};
use tests::client::{Answer, Client};
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, try_wait_for};

use crate::comparison::alike::{KEEPS, seen_alike};
use crate::house::House;

/// Each script by four clients; by one client if the script keeps its server.
pub(crate) fn each_alone_is_what_it_would_be_on_a_direct_connection(house: &House) {
    let (stage, habits) = (Stage::open(house, "habits", 2), read_all());
    let clients = |habit: &Habit| if habit.keeps.is_some() { 1 } else { 4 };
    let play = |habit: &Habit| stage.play(&vec![habit; clients(habit)], 3).err();
    let wrong: Vec<String> = habits.iter().filter_map(play).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), habits.len(), wrong.join("\n"));
}

/// All scripts at once, one client each, so that each client meets servers that all others have used.
pub(crate) fn all_together_are_what_they_would_be_on_direct_connections(house: &House) {
    let habits = read_all();
    // Some scripts keep their servers.
    let keeping = habits.iter().filter(|habit| habit.keeps.is_some()).count();
    let stage = Stage::open(house, "habits_together", 2 + keeping);
    let played = stage.play(&habits.iter().collect::<Vec<_>>(), 4);
    assert_eq!(played, Ok(()));
}

/// The same programs each time, or those of the seed `TRUNKLINE_HABITS_SEED`.
fn seed() -> u64 {
    std::env::var("TRUNKLINE_HABITS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn read_all() -> Vec<Habit> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("habits");
    let entries = fs::read_dir(&folder).expect("the folder of the scripts").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let read = |file: &String| {
        let name = Habit::name_of(file)?;
        let text = fs::read_to_string(folder.join(file)).expect("a script");
        Some(Habit::read(name, &text).unwrap_or_else(|mistake| panic!("{mistake}")))
    };
    names.iter().filter_map(read).collect()
}

const PATIENCE: Duration = Duration::from_secs(5);

/// The pooler, and two equal databases: changes and locks on one side are not seen on the other.
struct Stage<'a> {
    house: &'a House,
    pooler: Pooler,
    database: String,
    direct: String,
    servers: usize,
}

impl<'a> Stage<'a> {
    fn open(house: &'a House, database: &str, servers: usize) -> Self {
        let direct = format!("{database}_direct");
        house.postgres.database(database);
        house.postgres.database(&direct);
        let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("habits/setup.sql");
        let tables = fs::read_to_string(tables).expect("what makes the tables");
        for database in [database, &direct] {
            let mut client = house.postgres.client(database);
            client.run(&tables);
            if house.postgres.major() < 11 {
                // A script calls this function.
                client.run("create function sha224(bytea) returns bytea language sql immutable as 'select decode(md5($1), ''hex'')'");
            }
        }
        let ini = Ini::new(&house.line(database)).secret(USER, "").set(&format!("default_pool_size = {servers}"));
        Self { house, pooler: house.start(&ini), database: database.into(), direct, servers }
    }

    /// Runs a client for each script, with their messages interleaved, until each has run its script so many times.
    fn play(&self, habits: &[&Habit], times: u32) -> Result<(), String> {
        let mut random = Random::new(seed());
        let clients = habits.iter().enumerate();
        let mut pairs: Vec<Pair<'_>> = clients.map(|(number, habit)| Pair::come(self, habit, number)).collect();
        let name = |pair: &Pair<'_>| pair.habit.name.clone();
        for pair in &mut pairs {
            pair.is_watched = random.below(2) == 0;
        }
        loop {
            // A client that has a server may go on with it; the others may only if a server is free.
            let busy = pairs.iter().filter(|pair| pair.is_busy).count();
            let may = |pair: &Pair<'_>| pair.times < times && (pair.is_busy || busy < self.servers);
            let able: Vec<usize> = (0..pairs.len()).filter(|&at| may(&pairs[at])).collect();
            if able.is_empty() {
                break;
            }
            let pair = &mut pairs[able[random.below(able.len() as u64) as usize]];
            // An answer that does not arrive is a difference, too.
            let stepped = catch_unwind(AssertUnwindSafe(|| pair.step(&mut random)));
            let stepped = stepped.unwrap_or_else(|why| Err(why.downcast_ref::<String>().cloned().unwrap_or_default()));
            stepped.map_err(|why| format!("{}: {why}", name(pair)))?;
            if pair.is_through && pair.times < times && random.below(3) == 0 {
                pair.leave_and_come_again(self);
            }
        }
        if let Some(pair) = pairs.iter().find(|pair| pair.times < times) {
            return Err(format!(
                "{}: keeps a server when its script is at its end, and others cannot go on",
                name(pair)
            ));
        }
        self.await_pins(&pairs)
    }

    /// Waits for the expected number of pins: the state probe comes after the client's answer.
    fn await_pins(&self, pairs: &[Pair<'_>]) -> Result<(), String> {
        let keeping = pairs.iter().filter(|pair| pair.habit.keeps.is_some()).count();
        let mut last = Answer::default();
        let is_right = |pins: &Answer| pins.rows.is_empty() == (keeping == 0);
        let right = try_wait_for(LIMIT, || {
            last = self.pooler.console("show pins");
            is_right(&last).then_some(())
        });
        let names: Vec<&str> = pairs.iter().map(|pair| pair.habit.name.as_str()).collect();
        right
            .ok_or_else(|| format!("{}: {keeping} should keep servers, and there are {:?}", names.join(" "), last.rows))
    }
}

/// A client on each side that runs one script.
struct Pair<'a> {
    habit: &'a Habit,
    number: usize,
    sides: [Client; 2],
    /// The variables of its script.
    values: BTreeMap<String, String>,
    /// The statements that it has prepared.
    speaker: Speaker,
    /// The remaining lines of the script, and how often the script has been run.
    next: std::vec::IntoIter<Line>,
    times: u32,
    /// The script has just ended.
    is_through: bool,
    /// The client is in a transaction, or has state that keeps its server.
    is_busy: bool,
    /// Whether the session state is compared after each step. The comparison is a transaction itself, and may hide problems
    /// that occur without one.
    is_watched: bool,
}

impl<'a> Pair<'a> {
    fn come(stage: &Stage<'_>, habit: &'a Habit, number: usize) -> Self {
        let login = |address, database: &str| {
            let mut parameters = vec![("user", USER), ("database", database)];
            parameters.extend(habit.startup.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let name = &habit.name;
            Client::try_login(address, &parameters).unwrap_or_else(|error| panic!("{name}: {error:?}"))
        };
        let direct = login(stage.house.postgres.address(), &stage.direct);
        Self {
            habit,
            number,
            sides: [login(stage.pooler.address(), &stage.database), direct],
            values: BTreeMap::from([("client_id".into(), number.to_string())]),
            speaker: Speaker::of(habit),
            next: [&habit.connect[..], &habit.each].concat().into_iter(),
            times: 0,
            is_through: false,
            is_busy: false,
            is_watched: false,
        }
    }

    /// Disconnects and reconnects; other clients get its server then, with everything that it has left there.
    fn leave_and_come_again(&mut self, stage: &Stage<'_>) {
        let (times, is_watched) = (self.times, self.is_watched);
        *self = Self { times, is_watched, ..Self::come(stage, self.habit, self.number) };
    }

    /// Runs the script up to the next answer.
    fn step(&mut self, random: &mut Random) -> Result<(), String> {
        let (mut messages, mut answers, mut told) = (Vec::new(), 0, Vec::new());
        while let Some(line) = self.next.next() {
            match &line {
                Line::Set(name, draw) => drop(self.values.insert(name.clone(), drawn(*draw, random))),
                Line::Ask(statement) | Line::Ahead(statement) => told.push(self.text(statement)),
                Line::Pipeline(statements) => told.extend(statements.iter().map(|statement| self.text(statement))),
            }
            answers += self.speaker.line(&line, |name| self.values.get(name).cloned(), &mut messages);
            if !matches!(line, Line::Set(..) | Line::Ahead(_)) {
                break;
            }
        }
        let told = told.join("; ");
        self.sides.iter_mut().for_each(|client| client.peer.send(&messages));
        let mut status = 'I';
        for _ in 0..answers {
            status = self.answers().map_err(|why| format!("{told}: {why}"))?;
        }
        self.is_through = self.next.as_slice().is_empty();
        if status != 'E' && (self.is_watched || self.is_through) {
            seen_alike(self.sides.each_mut()).map_err(|why| format!("after {told}: the session {why}"))?;
        }
        self.is_busy = status != 'I' || self.sides[1].value(KEEPS) == "t";
        if self.is_through {
            self.times += 1;
            self.next = self.habit.each.clone().into_iter();
        }
        Ok(())
    }

    /// Reads the next answer on both sides, which must be equal. Returns the transaction status.
    fn answers(&mut self) -> Result<char, String> {
        let [pooled, direct] = self.sides.each_mut().map(|client| client.answer_within(PATIENCE));
        let told = |answer: &Answer| {
            let complaints = answer.errors.iter().chain(&answer.notices);
            let complaints: Vec<_> = complaints.map(|one| format!("{} {}", one.code, one.text)).collect();
            format!("{:?} {:?} {:?} {complaints:?} {}", answer.columns, answer.rows, answer.tags, answer.status)
        };
        let (ours, theirs) = (told(&pooled), told(&direct));
        if ours == theirs { Ok(direct.status) } else { Err(format!("is told {ours}, and {theirs} directly")) }
    }

    fn text(&self, statement: &Statement) -> String {
        statement.with_values(|name| self.values.get(name).cloned())
    }
}

fn drawn(draw: Draw, random: &mut Random) -> String {
    match draw {
        Draw::Between(least, most) => (u64::from(least) + random.below(u64::from(most - least) + 1)).to_string(),
        Draw::Fixed(number) => number.to_string(),
    }
}

/// The user of the clients: an ordinary user, to which the policies apply.
const USER: &str = "habit_app";
