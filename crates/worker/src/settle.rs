//! Carries out the commands of the pools and the tasks that modules have queued for each other, after the event that
//! caused them.
//!
//! Always true: the queue is empty before the next event is handled; a command or task whose key names a client or
//! server that has gone does nothing.
//! Not here: queueing (`worker`), what each module does for a command or task.

use pool::Command;
use reactor::{Io, Level, Subject};

use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Carries out the queue until it is empty. After most events it is empty already.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.hands.tasks.is_empty() {
            self.do_tasks();
        }
    }

    fn do_tasks(&mut self) {
        while let Some(task) = self.hands.tasks.pop_front() {
            match task {
                Task::Pools(command) => {
                    if let Some(command) = self.pass_or_defer(command) {
                        self.carry_out(command);
                    }
                }
                Task::ForwardHeld(client) => self.forward_held(client),
                Task::EndLoan { server, client } => self.end_loan_after(client, server),
                Task::Release(server) => self.release(server),
                Task::ReleaseAll { waiters, has_caught_up } => self.release_all(waiters, has_caught_up),
                Task::CancelWaiting(client) => self.cancel_waiting(client),
                Task::RequestOver(client) => self.drop_client(client, "cancel request"),
                Task::CancelOver { server, was_sent } => self.cancel_over(server, was_sent),
                Task::LoseServer { server, why } => self.lose_to_cancel(server, why),
                Task::Close { client, how } => self.close_now(client, &how),
            }
        }
    }

    pub(crate) fn carry_out(&mut self, command: Command) {
        match command {
            Command::Attach { client, server, waited } => {
                if self.attach(client, server, waited) {
                    self.forward_held(client);
                } else {
                    self.unpin_held(client);
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
            self.hands.log.about(&about, Level::Warning, format_args!("{note}"));
        }
    }

    /// Returns the command if it is to be carried out now. While the worker is suspended, commands that concern clients
    /// are deferred until it resumes, except those for connections from our own control thread: the suspension itself waits
    /// for the answers to its questions.
    pub(crate) fn pass_or_defer(&mut self, command: Command) -> Option<Command> {
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
            self.unpin_held(client);
            return self.admin.pass_or_defer(command, self.hands.now);
        }
        if let Command::Attach { server, .. } = command {
            // This server stopped receiving when the worker was suspended.
            self.hear_server(server);
        }
        Some(command)
    }
}
