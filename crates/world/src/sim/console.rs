//! The console: who asks it, and the control thread's part of it, which may think for a while.
//!
//! Always true: what is cancelled while it thinks is answered as cancelled; nobody is answered who has left.
//! Not here: what the answers are (`session`).

use base::Key;
use wire::Request;
use wire::write::{self, Says};
use worker::letters::ToWorker;

use crate::plan::{ADMIN, CONSOLE, Habits, Person, Plan, WATCHER};
use crate::postgres::session::answer_of_the_console;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::world::World;

/// What the control thread thinks about.
#[derive(Debug)]
pub(crate) struct Console {
    dice: Dice,
    /// The longest time that it thinks, in microseconds.
    slowness: u64,
    thoughts: Vec<Thought>,
    begun: u64,
}

/// An answer that is not given yet.
#[derive(Debug)]
struct Thought {
    number: u64,
    worker: u8,
    client: Key,
    answer: Vec<u8>,
}

impl Console {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut dice = Dice::new(plan.seed, STREAM);
        let slowness = if dice.chance(OFTEN) { 30_000 } else { 0 };
        Self { dice, slowness, thoughts: Vec::new(), begun: 0 }
    }
}

impl Plan {
    /// People who ask the console.
    pub(crate) fn draw_operators(&mut self, dice: &mut Dice, common: &Habits) {
        for _ in 0..dice.among(1..=3) {
            let person = Person {
                user: dice.pick(&[ADMIN, WATCHER]).to_owned(),
                database: CONSOLE.to_owned(),
                errands: dice.among(1..=30) as u32,
                transactions: false,
                proof: self.proof,
                is_proof_unsure: false,
                knows_any_database: self.shape.autodb.is_some(),
            };
            let habits = Habits {
                errors: common.errors,
                big: common.big,
                pipelines: common.pipelines,
                vanishes: common.vanishes,
                deafness: common.deafness,
                dawdles: common.dawdles,
                reconnects: common.reconnects,
                think: common.think,
                arrival: common.arrival,
                hasty: common.hasty,
                strange: common.strange,
                tls: common.tls,
                rude: common.rude * 5,
                ..Habits::default()
            };
            self.people.push((self.people.len() as u32, person, habits));
        }
    }

    /// Where the console is slow, its people lose patience.
    pub(crate) fn draw_console(&mut self) {
        let mut dice = Dice::new(self.seed, STREAM);
        if !dice.chance(OFTEN) {
            return;
        }
        for (_, person, habits) in self.people.iter_mut().filter(|(_, person, _)| person.is_operator()) {
            habits.cancels = 300;
            person.errands += 10;
        }
    }
}

impl World {
    /// Somebody asks the console.
    pub(crate) fn console_asks(&mut self, worker: u8, client: Key, request: &Request) {
        let answer = answer_of_the_console(request);
        if self.console.slowness == 0 {
            self.post(worker, ToWorker::ConsoleAnswer { client, bytes: answer, closes: false });
            return;
        }
        self.console.begun += 1;
        let number = self.console.begun;
        self.console.thoughts.push(Thought { number, worker, client, answer });
        let after = self.console.dice.micros(0..=self.console.slowness);
        self.net.borrow_mut().agenda.after(after, Event::ConsoleAnswers { number });
    }

    /// Another process has taken over.
    pub(crate) fn forget_commands(&mut self) {
        self.console.thoughts.clear();
    }

    /// It has thought for long enough.
    pub(crate) fn console_answers(&mut self, number: u64) {
        if let Some(at) = self.console.thoughts.iter().position(|thought| thought.number == number) {
            let Thought { worker, client, answer, .. } = self.console.thoughts.remove(at);
            self.post(worker, ToWorker::ConsoleAnswer { client, bytes: answer, closes: false });
        }
    }

    /// Somebody wants no answer any more.
    pub(crate) fn console_cancels(&mut self, worker: u8, client: Key) {
        if self.console_forgets(worker, client) {
            self.witness.count("commands cancelled");
            let mut bytes = Vec::new();
            let message = "canceling statement due to user request";
            write::error(&mut bytes, Says { severity: "ERROR", sqlstate: "57014", message, detail: None, hint: None });
            write::ready_for_query(&mut bytes, wire::backend::TxStatus::Idle);
            self.post(worker, ToWorker::ConsoleAnswer { client, bytes, closes: false });
        }
    }

    /// Somebody has left; whether they had asked for something.
    pub(crate) fn console_forgets(&mut self, worker: u8, client: Key) -> bool {
        let before = self.console.thoughts.len();
        self.console.thoughts.retain(|thought| (thought.worker, thought.client) != (worker, client));
        self.console.thoughts.len() < before
    }
}

/// The stream of chance for the console.
const STREAM: u64 = u64::MAX - 43;
/// So many of a thousand worlds have a slow one.
const OFTEN: u32 = 400;
