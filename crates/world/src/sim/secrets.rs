//! The control thread's part in `auth_query`: it comes to a worker as a client, asks a server about a user, and tells the worker
//! what it has heard.
//!
//! Always true: every question is answered once; what it hears is the answer to its own question and to nothing else.
//! Not here: what the answer is (`session::secrets`), which question is put (`worker::admission::secrets`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use base::Time;
use protocol::server::login::{Identity, LoginFault, ServerLogin, Step};
use wire::notice::Notice;
use wire::{backend, frontend, write};
use worker::letters::{Inquirer, SecretQuestion, ToWorker, Told};

use crate::app::App;
use crate::checks::witness::Charge;
use crate::faults::{Command, What};
use crate::plan::{Plan, Proof};
use crate::sim::agenda::Event;
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::world::World;

/// What the control thread of a world knows of users and of who has asked for them.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) questions: Vec<Question>,
    /// How many times each user has been given another secret; those that never were are not here.
    pub(crate) versions: BTreeMap<String, u32>,
    /// Until when a worker may believe in a user's old secret.
    believed_until: BTreeMap<String, Time>,
    /// Refusals that clients may meet because of what went wrong with their questions, and how often.
    pub(crate) excuses: BTreeMap<&'static str, u64>,
    /// Workers may be held up for seconds.
    pub(crate) are_workers_slow: bool,
    /// The file of secrets may lack somebody about whom nobody can be asked, or the database that is asked may be gone.
    are_secrets_lost: bool,
    /// Questions that each database has answered.
    pub(crate) put: BTreeMap<String, u64>,
}

/// A question about a user.
#[derive(Debug)]
pub(crate) struct Question {
    asked: SecretQuestion,
    stage: Stage,
    input: Vec<u8>,
    answer: Answer,
}

#[derive(Debug)]
enum Stage {
    /// It has not been put.
    Waits,
    Login {
        end: u32,
        login: Box<ServerLogin>,
    },
    Asked {
        end: u32,
    },
    /// The worker has not been told.
    Answered(Told),
    Over,
}

/// What has been heard.
#[derive(Debug, Default)]
struct Answer {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    error: Option<Notice>,
    /// How far it has come: the kinds of its messages.
    kinds: Vec<u8>,
}

impl Archive {
    pub(crate) fn new(plan: &Plan) -> Self {
        let is_slow = |what: &What| matches!(what, What::Stall { .. } | What::Order(_) | What::Jump { .. });
        let has_one = plan.shape.settings.contains_key("auth_dbname");
        // Another process may come with other settings.
        let brings_settings = |what: &What| matches!(what, What::Reload { .. } | What::Order(Command::Handover { .. }));
        let is_lost = |what: &What| matches!(what, What::Secrets { .. }) || has_one && brings_settings(what);
        Self {
            questions: Vec::new(),
            versions: BTreeMap::new(),
            believed_until: BTreeMap::new(),
            excuses: BTreeMap::new(),
            are_workers_slow: plan.faults.iter().any(|(_, fault)| is_slow(&fault.what)),
            are_secrets_lost: plan.auth.is_asked && plan.faults.iter().any(|(_, fault)| is_lost(&fault.what)),
            put: BTreeMap::new(),
        }
    }

    /// Whether this refusal follows from something that went wrong with a question; `is_early` is before everything has healed.
    pub(crate) fn excuses(&mut self, text: &str, user: &str, is_early: bool, now: Time) -> bool {
        // What answers SCRAM says nothing about another secret: whoever meets an old one is refused, and has to come again.
        let is_behind = text.starts_with("SASL") && self.believed_until.get(user).is_some_and(|&until| now <= until);
        if is_behind || text == MISTAKEN && is_early && self.are_secrets_lost {
            return true;
        }
        match self.excuses.get_mut(text).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                true
            }
            None => false,
        }
    }

    /// Whether this refusal may come from there being another secret by now than the one by which somebody came: whoever waits for
    /// the only server, which somebody else keeps, may have waited for long.
    pub(crate) fn is_outdated(&self, text: &str, user: &str) -> bool {
        let is_about_secrets = text.contains("password authentication failed") || text.starts_with("SASL");
        is_about_secrets && self.versions.contains_key(user)
    }

    /// Whether every question has been answered.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.questions.iter().all(|question| matches!(question.stage, Stage::Over))
    }
}

impl World {
    /// Another process has taken over: nobody wants to know any more.
    pub(crate) fn forget_all_questions(&mut self) {
        for question in &mut self.archive.questions {
            if let Stage::Login { end, .. } | Stage::Asked { end } = std::mem::replace(&mut question.stage, Stage::Over)
            {
                self.net.borrow_mut().drop_end(end);
            }
        }
    }

    /// A worker wants to know of a user.
    pub(crate) fn ask_secret(&mut self, asked: SecretQuestion) {
        self.witness.count("questions about users");
        let number = self.archive.questions.len() as u32;
        let question = Question { asked, stage: Stage::Waits, input: Vec::new(), answer: Answer::default() };
        self.archive.questions.push(question);
        let pause = self.control_pause();
        self.net.borrow_mut().agenda.after(pause, Event::Question { number });
    }

    /// The client for which a worker wanted to know is gone: what has not been put is not put.
    pub(crate) fn forget_secret(&mut self, from: base::WorkerId, client: pool::ClientKey) {
        let its = (from, Inquirer::Client(client));
        let is_its = |question: &&mut Question| (question.asked.from, question.asked.inquirer) == its;
        for question in self.archive.questions.iter_mut().filter(is_its) {
            if matches!(question.stage, Stage::Waits) {
                question.stage = Stage::Over;
            }
        }
    }

    /// It is time for the next step of a question.
    pub(crate) fn mind_question(&mut self, number: u32) {
        let question = &mut self.archive.questions[number as usize];
        match std::mem::replace(&mut question.stage, Stage::Over) {
            Stage::Waits => self.put(number),
            Stage::Login { end, .. } | Stage::Asked { end } => {
                self.net.borrow_mut().drop_end(end);
                self.answer(number, Told::Unanswered("no answer to auth_query in time".to_owned()));
            }
            Stage::Answered(told) => self.tell(number, told),
            Stage::Over => {}
        }
    }

    fn put(&mut self, number: u32) {
        let asked = self.archive.questions[number as usize].asked.clone();
        let near = {
            let net = &mut self.net.borrow_mut();
            if net.descriptors >= net.descriptors_max {
                None
            } else {
                net.descriptors += 1;
                Some(net.pair(Holder::Question(number)))
            }
        };
        let Some(near) = near else {
            return self.answer(number, Told::Unanswered("cannot ask auth_query: Too many open files".to_owned()));
        };
        let home = self.force.homes.home_of(&asked.database);
        self.post(self.place_of(home), ToWorker::Own(SimSocket(near ^ 1)));
        let identity = own_identity(&asked.asker, &asked.database, None);
        let mut out = Vec::new();
        let login = ServerLogin::begin(identity, [0; auth::scram::NONCE_BYTES], &mut out);
        self.archive.questions[number as usize].stage = Stage::Login { end: near, login: Box::new(login) };
        let limit = self.force.settings.client_login_timeout.unwrap_or(LOGIN_MAX) + AFTER_THE_LOGIN;
        let net = &mut self.net.borrow_mut();
        net.say(near, out);
        net.agenda.after(limit, Event::Question { number });
    }

    /// Something has come for a question.
    pub(crate) fn hear_question(&mut self, net: &mut Net, number: u32) {
        let question = &mut self.archive.questions[number as usize];
        let (Stage::Login { end, .. } | Stage::Asked { end }) = question.stage else { return };
        net.read(end, usize::MAX, &mut question.input);
        let input = std::mem::take(&mut question.input);
        let mut at = 0;
        while let Some((kind, body, next)) = crate::message_at(&input, at) {
            at = next;
            self.hear_word(net, number, kind, body);
        }
        let question = &mut self.archive.questions[number as usize];
        question.input = input[at..].to_vec();
        let is_over = net.end(end).is_reset || (net.end(end).is_eof && net.end(end).arrived_bytes == 0);
        if is_over && matches!(question.stage, Stage::Login { .. } | Stage::Asked { .. }) {
            net.close(end);
            let told = match question.answer.error.take() {
                Some(notice) => told_by_error(&notice),
                None => Told::Unanswered("error in auth_query: connection closed".to_owned()),
            };
            self.answer_on(net, number, told);
        }
    }

    fn hear_word(&mut self, net: &mut Net, number: u32, kind: u8, body: &[u8]) {
        let question = &mut self.archive.questions[number as usize];
        match &mut question.stage {
            Stage::Login { end, login } => match login.hear(kind, body) {
                Ok(Step::Wait) => {}
                Ok(Step::Ready(_)) => {
                    let end = *end;
                    question.stage = Stage::Asked { end };
                    net.say(end, words(&question.asked));
                }
                Ok(Step::Send(_) | Step::Derive(_)) => {
                    self.witness.accuse(Charge::NotServed, "a question of our own is asked who it is".to_owned());
                }
                Err(LoginFault::Refused(notice)) => question.answer.error = Some(notice),
                Err(fault) => {
                    let text = format!("a question hears nonsense at its login: {fault:?}");
                    self.witness.accuse(Charge::ForeignBytes, text);
                }
            },
            Stage::Asked { end } => {
                let end = *end;
                match kind {
                    backend::PARAMETER_STATUS | backend::NOTICE_RESPONSE => return,
                    backend::ERROR_RESPONSE => question.answer.error = Some(Notice::parse(body)),
                    backend::DATA_ROW => question.answer.rows.push(columns(body)),
                    _ => {}
                }
                question.answer.kinds.push(kind);
                if kind != backend::READY_FOR_QUERY {
                    return;
                }
                let answer = std::mem::take(&mut question.answer);
                let user = question.asked.user.clone();
                *self.archive.put.entry(question.asked.database.to_string()).or_default() += 1;
                self.check_answer(&answer, &user);
                let mut out = Vec::new();
                write::bare(&mut out, frontend::TERMINATE);
                net.say(end, out);
                net.close(end);
                let told = match &answer.error {
                    Some(notice) => told_by_error(notice),
                    None => told_by(&answer.rows),
                };
                self.answer_on(net, number, told);
            }
            Stage::Waits | Stage::Answered(_) | Stage::Over => {}
        }
    }

    /// An answer is whole, in its order, and about whom was asked for.
    fn check_answer(&mut self, answer: &Answer, user: &str) {
        let mut kinds = answer.kinds.clone();
        kinds.dedup_by(|one, other| *one == *other && *one == backend::DATA_ROW);
        kinds.retain(|&kind| kind != backend::DATA_ROW);
        let begin = [backend::PARSE_COMPLETE, backend::BIND_COMPLETE, backend::ROW_DESCRIPTION];
        let whole = [&begin[..], &[backend::COMMAND_COMPLETE, backend::READY_FOR_QUERY]].concat();
        let is_whole = if answer.error.is_some() {
            let (last, rest) = kinds.split_at(kinds.len().saturating_sub(2));
            last.len() <= begin.len()
                && begin.starts_with(last)
                && rest == [backend::ERROR_RESPONSE, backend::READY_FOR_QUERY]
        } else {
            kinds == whole
        };
        let is_foreign = |row: &Vec<Option<Vec<u8>>>| {
            row[0].as_ref().is_some_and(|name| *name != user.as_bytes() && *name != b"somebody else")
        };
        if !is_whole || answer.rows.iter().any(is_foreign) {
            let text = format!("the question for {user} is answered by {kinds:?}, {} rows", answer.rows.len());
            self.witness.accuse(Charge::ForeignBytes, text);
        }
    }

    fn answer(&mut self, number: u32, told: Told) {
        let net = self.net.clone();
        self.answer_on(&mut net.borrow_mut(), number, told);
    }

    /// The control thread knows; the worker is told a little later.
    fn answer_on(&mut self, net: &mut Net, number: u32, told: Told) {
        self.archive.questions[number as usize].stage = Stage::Answered(told);
        let pause = self.control_pause();
        net.agenda.after(pause, Event::Question { number });
    }

    fn tell(&mut self, number: u32, told: Told) {
        let asked = self.archive.questions[number as usize].asked.clone();
        let from = asked.from;
        match &told {
            Told::User { secret, .. } => self.note_told(&asked, secret),
            Told::Unanswered(_) if matches!(asked.inquirer, Inquirer::Client(_)) => {
                *self.archive.excuses.entry(MISTAKEN).or_default() += 1;
            }
            Told::Unanswered(_) | Told::Nobody | Told::Refused { .. } => {}
        }
        self.witness.count(match &told {
            Told::User { .. } => "answers about users",
            Told::Nobody => "answers that there is no such user",
            Told::Unanswered(_) => "questions without an answer",
            Told::Refused { .. } => "questions that could not be asked",
        });
        self.post(self.place_of(from), ToWorker::Told { inquirer: asked.inquirer, told });
    }

    /// A worker hears an old secret: it may believe in it for its time, until the operator reloads.
    fn note_told(&mut self, asked: &SecretQuestion, secret: &Secret) {
        let Some(&version) = self.archive.versions.get(&*asked.user) else { return };
        let hosts = 0..self.plan.hosts;
        let is_new = hosts.into_iter().any(|host| *self.plan.auth.stored(&asked.user, host, version) == *secret);
        if !is_new {
            let until = self.witness.now + Duration::from_micros(self.plan.auth.believed);
            self.believe_until(&asked.user.clone(), until);
        }
    }

    fn believe_until(&mut self, user: &str, until: Time) {
        let held_up = if self.archive.are_workers_slow { HELD_UP_MAX } else { POST_MAX };
        let until = until + held_up;
        let row = self.archive.believed_until.entry(user.to_owned()).or_insert(until);
        *row = until.max(*row);
    }

    /// What servers have told is forgotten by workers that take over new settings.
    pub(crate) fn forget_old_secrets(&mut self) {
        let users: Vec<String> = self.archive.versions.keys().cloned().collect();
        for user in users {
            self.archive.believed_until.remove(&user);
            let now = self.witness.now;
            self.believe_until(&user, now);
        }
    }

    /// A user gets another secret, at all servers at once, and whoever comes as that user knows it.
    pub(crate) fn change_secret(&mut self, user: &str) {
        let version = self.archive.versions.entry(user.to_owned()).or_default();
        *version += 1;
        let version = *version;
        self.witness.count("new secrets of users");
        for (number, host) in self.postgres.hosts.iter_mut().enumerate() {
            host.manner.secrets = Arc::new(self.plan.auth.secrets(number, &self.archive.versions));
        }
        for app in self.apps.iter_mut().filter(|app| app.person.user == user) {
            let host = self.plan.host_of(&app.person.database);
            app.secret = Arc::new(self.plan.auth.password(user, host, version));
            // Who shows nothing has nothing old to show.
            let old = (app.person.proof != Proof::None).then(|| self.plan.auth.password(user, host, version - 1));
            app.door.old = old.map(Arc::new);
        }
        let until = self.witness.now + Duration::from_micros(self.plan.auth.believed);
        self.believe_until(user, until);
    }

    /// Somebody new knows the secret of now.
    pub(crate) fn renew_password(&self, app: &mut App) {
        if let Some(&version) = self.archive.versions.get(&app.person.user) {
            let host = self.plan.host_of(&app.person.database);
            app.secret = Arc::new(self.plan.auth.password(&app.person.user, host, version));
        }
    }

    /// Somebody is about to come: is their old password still good?
    pub(crate) fn mind_old_password(&mut self, app: u32) {
        let app = &mut self.apps[app as usize];
        if app.door.old.is_some() {
            let until = self.archive.believed_until.get(&app.person.user);
            app.door.is_old_over = until.is_none_or(|&until| self.witness.now > until);
        }
    }
}

/// What is said to a server: as the control thread does, in one go, without a name.
fn words(asked: &SecretQuestion) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, frontend::PARSE, |out| {
        out.push(0);
        write::c_string(out, &asked.sql);
        out.extend([0, 1, 0, 0, 0, 25]);
    });
    write::message(&mut out, frontend::BIND, |out| {
        out.extend([0, 0, 0, 0, 0, 1]);
        out.extend((asked.user.len() as u32).to_be_bytes());
        out.extend(asked.user.as_bytes());
        out.extend([0, 0]);
    });
    write::message(&mut out, frontend::DESCRIBE, |out| out.extend(b"P\0"));
    write::message(&mut out, frontend::EXECUTE, |out| out.extend([0; 5]));
    write::bare(&mut out, frontend::SYNC);
    out
}

/// The values of a `DataRow`.
fn columns(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (mut values, mut rest) = (Vec::new(), body.get(2..).unwrap_or_default());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let (value, after) = after.split_at(length.max(0) as usize);
        values.push((length >= 0).then(|| value.to_vec()));
        rest = after;
    }
    values
}

/// As the control thread understands it.
fn told_by(rows: &[Vec<Option<Vec<u8>>>]) -> Told {
    let Some((first, rest)) = rows.split_first() else { return Told::Nobody };
    if rest.iter().any(|row| row != first) {
        return Told::Unanswered("expected 1 row from auth_query, not several that differ".to_owned());
    }
    let [name, secret] = &first[..] else {
        return Told::Unanswered(format!("expected 2 columns from auth_query, not {}", first.len()));
    };
    let Some(name) = name else {
        return Told::Unanswered("auth_query response contained null user name".to_owned());
    };
    let is_torn =
        |secret: &Vec<u8>| secret.starts_with(b"SCRAM-SHA-256$") && matches!(Secret::parse(secret), Secret::Plain(_));
    if secret.as_ref().is_some_and(is_torn) {
        return Told::Unanswered("auth_query response contained a broken SCRAM secret".to_owned());
    }
    let secret = Arc::new(secret.as_ref().map_or(Secret::None, Secret::parse));
    Told::User { name: String::from_utf8_lossy(name).as_ref().into(), secret }
}

/// Who a client of our own is: our workers ask for no proof.
pub(crate) fn own_identity(user: &str, database: &str, name: Option<&str>) -> Identity {
    Identity {
        user: user.into(),
        database: database.into(),
        secret: Arc::default(),
        keys: None,
        salted: None,
        iterations_max: u32::MAX,
        channel: None,
        parameters: name.map(|name| ("application_name".into(), name.into())).into_iter().collect(),
    }
}

fn told_by_error(notice: &Notice) -> Told {
    match notice.sqlstate.as_bytes().first_chunk::<5>() {
        Some(sqlstate) if *notice.severity == *"FATAL" => {
            Told::Refused { sqlstate: *sqlstate, text: (*notice.message).into(), detail: None, hint: None }
        }
        _ => Told::Unanswered(format!("S: error in auth_query: {}: {}", notice.severity, notice.message)),
    }
}

/// What a client is told whose question has no answer.
const MISTAKEN: &str = "bouncer config error";
/// How long a question may take where a login may take for ever, and how much longer than the login elsewhere.
pub(crate) const LOGIN_MAX: Duration = Duration::from_secs(60);
pub(crate) const AFTER_THE_LOGIN: Duration = Duration::from_secs(5);
/// How long a letter may lie in a worker's box: where something holds workers up, and otherwise.
const HELD_UP_MAX: Duration = Duration::from_secs(10);
const POST_MAX: Duration = Duration::from_millis(100);
