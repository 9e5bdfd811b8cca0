//! What the pools want done, and what rooms want of each other, is done: after the event that caused it.
//!
//! Always true: everything that is queued is done before the next event is looked at; a key may be of somebody who has gone meanwhile, and then nothing is done.
//! Not here: what is queued (`worker`), what each room does about it.

use pool::Command;
use reactor::{Io, Level, Subject};

use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Does what is queued, until nothing is. After most events nothing is.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.tasks.is_empty() {
            self.do_tasks();
        }
    }

    fn do_tasks(&mut self) {
        while let Some(task) = self.tasks.pop_front() {
            match task {
                Task::Pools(command) => {
                    if let Some(command) = self.put_off(command) {
                        self.carry_out(command);
                    }
                }
                Task::GoOn(client) => self.forward_held(client),
                Task::EndLoan { server, client } => self.end_loan_after(client, server),
                Task::Release(server) => self.release(server),
                Task::ReleaseAll { waits, is_level } => self.release_all(waits, is_level),
                Task::Joined { client, number } => self.end_joining(client, Some(number), true),
                Task::Close { client, how } => self.close_now(client, &how),
            }
        }
    }

    pub(crate) fn carry_out(&mut self, command: Command) {
        match command {
            Command::Attach { client, server, waited } => {
                if self.attach(client, server, waited) {
                    self.forward_held(client);
                }
            }
            Command::Dial { pool, server, owner, why } => self.dial(pool, server, owner, why),
            Command::Bind { client, server, waited } => self.bind(client, server, waited),
            Command::Welcome { client } => self.welcome(client),
            Command::Reset { server } => self.reset(server),
            Command::Check { server } => self.check(server),
            Command::Close { server, why } => self.close_for_pool(server, why),
            Command::Refuse { client, why } => self.refuse(client, why),
            Command::Ask { user, need } => self.ask_ledger(user, need),
            Command::Withdraw { user } => self.withdraw_from_ledger(user),
            Command::GiveBack { user } => self.give_back_to_ledger(user),
            Command::Note(note) => self.note(note),
        }
    }

    fn note(&mut self, note: pool::Note) {
        let pool::Note::ReserveTaken { pool } = note;
        if let Some(place) = self.registry.pool(pool) {
            let about = Subject::pool(&place.database_name, &place.user_name);
            self.log.about(&about, Level::Warning, format_args!("{note}"));
        }
    }

    /// Whether a command of the pools is one for now; one that is not is done on waking. What concerns our own questions is:
    /// who waits for their answers is waited for.
    pub(crate) fn put_off(&mut self, command: Command) -> Option<Command> {
        if !self.admin.is_resting() {
            return Some(command);
        }
        let client = match command {
            Command::Attach { client, .. }
            | Command::Bind { client, .. }
            | Command::Welcome { client }
            | Command::Refuse { client, .. } => client,
            _ => return Some(command),
        };
        if !self.clients.get(client).is_some_and(|client| client.is_own) {
            return self.admin.put_off(command, self.now);
        }
        if let Command::Attach { server, .. } = command {
            // It has come to rest with the others.
            self.hear_server(server);
        }
        Some(command)
    }
}
