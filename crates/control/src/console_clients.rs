//! Requests of console clients, and the answers to them.
//!
//! Always true: each request is answered once, in the protocol in which it was made.
//! Not here: the meaning of commands (`console`), carrying out orders (`orders`).

use reactor::Level;
use wire::Request;
use worker::letters::{Commander, Right, Snapshot, ToWorker};

use crate::console::show::Showing;
use crate::console::{self, Answer, Command, Next, Refusal};
use crate::control::{Control, Purpose};
use crate::pending_orders::ConsoleClient;

impl<S> Control<S> {
    /// Handles a request of a console client.
    pub(crate) fn console(&mut self, asker: ConsoleClient, right: Right, by: &Commander, request: Request) {
        match self.sessions.hear(asker, request, right) {
            Next::Say(bytes) => self.say(asker, bytes),
            Next::Run(command) => self.run(asker, by, command),
            Next::Refuse(refusal) => self.refuse_order(asker, by, refusal),
        }
    }

    fn run(&mut self, asker: ConsoleClient, by: &Commander, command: Command) {
        match command {
            Command::Show(showing) if showing.subject.needs_no_worker() => self.show(asker, showing, &[]),
            Command::Show(showing) => self.surveys.ask(showing.subject.parts, Purpose::Show(asker, showing)),
            Command::Help => self.answer(asker, console::help_answer()),
            Command::Parameter(parameter) => self.answer(asker, parameter.answer()),
            Command::SetParameter => self.answer(asker, console::set_ignored_answer()),
            Command::Order(order) => self.obey(asker, by, order),
        }
    }

    pub(crate) fn show(&mut self, asker: ConsoleClient, showing: Showing, snapshots: &[Snapshot]) {
        let table = showing.table(&self.view(snapshots));
        self.answer(asker, Answer::Table(table));
    }

    pub(crate) fn refuse(&mut self, asker: ConsoleClient, refusal: Refusal) {
        self.refuse_order(asker, &Commander::default(), refusal);
    }

    /// Refuses what a client has asked for, and names the client in the log.
    pub(crate) fn refuse_order(&mut self, asker: ConsoleClient, by: &Commander, refusal: Refusal) {
        self.hands.log_about(&by.about, Level::Error, format_args!("{}", refusal.text));
        if self.hands.active.settings.log_pooler_errors {
            self.hands.log_about(&by.about, Level::Warning, format_args!("pooler error: {}", refusal.text));
        }
        self.answer(asker, Answer::Refused(refusal));
    }

    /// Sends the answer in the protocol of the request, simple or extended; a client that has disconnected needs none.
    pub(crate) fn answer(&mut self, asker: ConsoleClient, answer: Answer) {
        match self.sessions.answer(&asker, answer) {
            Some(Ok(bytes)) => self.say(asker, bytes),
            // A refusal always fits.
            Some(Err(refusal)) => self.refuse(asker, refusal),
            None => {}
        }
    }

    fn say(&self, asker: ConsoleClient, bytes: Vec<u8>) {
        self.hands.post(asker.at, ToWorker::ConsoleAnswer { client: asker.client, bytes, closes: false });
    }
}
