//! The control thread of a world: the product's own ([`Control`]), and whatever it finds outside of itself: files, names, judges,
//! threads that hash.
//!
//! Always true: it is told of everything in the moment in which it happens, and what it asks for takes its time; workers get its
//! orders from nobody else, and what it orders is noted when it does so, whatever was meant.
//! Not here: what operators want of it (`operator`), how an online restart goes (`takeover`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base::{Time, Wall};
use config::{Mistake, Overrides, Settings};
use control::{Control, Event, FileReader, Files, Moment, PutPassword, Source, SystemUserQuestion};
use reactor::LogTarget;
use worker::letters::{Addresses, Force, Found, HashQuestion, Ids, Post, ToControl, ToWorker};

use crate::plan::auth_plan::{IDENTS, system_user};
use crate::plan::group::address_of_peer;
use crate::plan::{Plan, Shape};
use crate::sim::agenda;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::{CERTIFICATE, KEY, papers};
use crate::sim::io::{CALENDAR, SimSocket};
use crate::sim::net::OWN_UID;
use crate::world::{Envelope, World};

/// The control thread of the process that serves.
pub(crate) struct ControlThread {
    pub(crate) control: Control<SimSocket>,
    /// What it has asked for and not been told.
    asked: Vec<Option<Asked>>,
    dice: Dice,
    /// Letters that it takes its time for, in their order, and when it reads the last of them.
    letters: VecDeque<ToControl>,
    reads_until: Time,
    /// When it is woken next.
    wakes_at: Option<Time>,
    /// What everything outside of it takes its time by.
    pub(crate) slowness: u64,
    /// No judge can be asked.
    pub(crate) has_no_judge: bool,
    pub(crate) are_names_known: bool,
}

/// Something that it has to be told.
#[derive(Debug)]
enum Asked {
    Name(Arc<str>),
    Password(PutPassword),
    Hash(HashQuestion),
    SystemUser(SystemUserQuestion),
}

/// The files that its configuration consists of, and names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Disk {
    /// With the files of a plan.
    pub(crate) fn of(plan: &Plan, users: String) -> Self {
        let disk = Self::default();
        disk.write(CONFIGURATION, plan.shape.text());
        disk.write("users", users);
        if let Some(rules) = plan.auth.rules() {
            disk.write("rules", rules);
            disk.write("idents", IDENTS);
        }
        if plan.tls.is_offered {
            let (certificate, key) = papers();
            disk.write(CERTIFICATE, certificate.as_str());
            disk.write(KEY, key.as_str());
        }
        disk
    }

    pub(crate) fn write(&self, name: &str, text: impl Into<String>) {
        let text: String = text.into();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text.into_bytes());
    }

    fn source(&self) -> Source {
        let files = self.0.clone();
        let read = move |name: &str| {
            let files = files.lock().unwrap_or_else(PoisonError::into_inner);
            files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        let overrides = Overrides { quiet: true, ..Overrides::default() };
        Source::new(CONFIGURATION.to_owned(), overrides, FileReader::new(read))
    }

    /// The settings as a process that starts reads them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<Mistake>> {
        self.source().read().map(|loaded| loaded.settings)
    }

    /// What is in force in a process that starts with so many workers.
    pub(crate) fn first_force(&self, settings: Settings, workers: u8) -> Force {
        let source = self.source();
        let (users, mut problems) = control::read_users(&settings, source.files()).unwrap_or_default();
        let (hba, idents, lines) =
            control::read_rules(&settings, source.files()).unwrap_or_else(|lines| panic!("{lines:?}"));
        problems.extend(lines);
        assert!(problems.is_empty(), "the files of a plan have a mistake: {problems:?}");
        let tls = control::read_tls(&settings, source.files()).unwrap_or_else(|why| panic!("{why}"));
        let log = Arc::new(LogTarget::new(false, None));
        control::first_force(settings, Files { users, rules: (hba, idents), tls }, log, workers, [9; 32], OWN_UID)
    }

    /// The control thread of a process with these workers.
    pub(crate) fn control(
        &self,
        force: &Arc<Force>,
        posts: Vec<Post<ToWorker<SimSocket>>>,
        now: Moment,
        ids: Ids,
    ) -> Control<SimSocket> {
        let speaker = Arc::new(RwLock::new(force.log.clone()));
        Control::new(self.source(), force.clone(), speaker, Vec::new(), posts, now).with_ids(ids)
    }
}

impl ControlThread {
    pub(crate) fn new(plan: &Plan, control: Control<SimSocket>) -> Self {
        let dice = Dice::new(plan.seed, STREAM);
        Self {
            control,
            asked: Vec::new(),
            letters: VecDeque::new(),
            reads_until: Time(0),
            dice,
            wakes_at: None,
            slowness: 1,
            has_no_judge: false,
            are_names_known: true,
        }
    }

    /// The process is another one, and the world around it the same.
    pub(crate) fn succeed(&mut self, control: Control<SimSocket>) {
        self.control = control;
        self.wakes_at = None;
        // What the one before it has asked for comes to nobody.
        self.asked.iter_mut().for_each(|asked| *asked = None);
        self.letters.clear();
    }

    /// Whether everything has been answered.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.asked.iter().all(Option::is_none) && self.letters.is_empty()
    }
}

impl fmt::Debug for ControlThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlThread").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// How the control thread of these workers writes to them.
pub(crate) fn posts_to(crew: &Range<u8>, mail: &Arc<Mutex<Vec<Envelope>>>) -> Vec<Post<ToWorker<SimSocket>>> {
    let boxes = crew.clone().map(|to| {
        let mail = mail.clone();
        let post: Post<ToWorker<SimSocket>> = Arc::new(move |letter| {
            mail.lock().unwrap_or_else(PoisonError::into_inner).push(Envelope::FromControl { to, letter });
        });
        post
    });
    boxes.collect()
}

impl World {
    /// The present on the clocks of the machine.
    pub(crate) fn moment(&self) -> Moment {
        let time = Time(self.witness.now.0 + self.ahead());
        Moment { time, wall: Wall(CALENDAR + time.0 as i64) }
    }

    fn ahead(&self) -> u64 {
        self.net.borrow().desks.first().map_or(0, |desk| desk.ahead)
    }

    /// Something happens to the control thread.
    pub(crate) fn control_hears(&mut self, event: Event) {
        let now = self.moment();
        self.thread.control.handle(now, event);
        self.serve_control();
        self.send_mail();
    }

    /// Sees to it that what the control thread asks for is answered.
    fn serve_control(&mut self) {
        while let Some(name) = self.thread.control.next_lookup() {
            self.answer_later(Asked::Name(name));
        }
        while let Some(put) = self.thread.control.next_password() {
            self.answer_later(Asked::Password(put));
        }
        while let Some(question) = self.thread.control.next_hashing() {
            self.answer_later(Asked::Hash(question));
        }
        while let Some(question) = self.thread.control.next_system_user() {
            self.answer_later(Asked::SystemUser(question));
        }
        if let Some(courier) = self.thread.control.next_courier() {
            self.courier_sets_out(courier);
        }
        self.courier_waits();
        self.carry_links();
        let deadline = Time(self.thread.control.next_deadline().0.saturating_sub(self.ahead()));
        if self.thread.wakes_at.is_none_or(|at| at > deadline) {
            self.thread.wakes_at = Some(deadline);
            self.net.borrow_mut().agenda.at(deadline, agenda::Event::ControlWakes);
        }
    }

    /// It may be time for something.
    pub(crate) fn control_wakes(&mut self) {
        if self.thread.wakes_at.is_none_or(|at| at > self.witness.now) {
            return;
        }
        self.thread.wakes_at = None;
        match self.thread.control.next_deadline() <= self.moment().time {
            true => self.control_hears(Event::Tick),
            false => self.serve_control(),
        }
    }

    /// How long something outside of the control thread takes.
    pub(crate) fn control_pause(&mut self) -> Duration {
        let (low, high) = if self.is_healed() { (0, HEALED_PAUSE) } else { self.plan.auth.pause };
        let slowness = self.thread.slowness;
        self.thread.dice.micros(low..=high * slowness)
    }

    /// A letter comes that need not be read at once: whoever has written it may have thought better of it by then.
    pub(crate) fn control_reads_later(&mut self, letter: ToControl) {
        if let ToControl::AskSecret(question) = &letter {
            self.note_question(question.clone());
        }
        let at = (self.witness.now + self.control_pause()).max(self.thread.reads_until);
        self.thread.reads_until = at;
        self.thread.letters.push_back(letter);
        self.net.borrow_mut().agenda.at(at, agenda::Event::ControlReads);
    }

    /// It reads the next of them.
    pub(crate) fn control_reads(&mut self) {
        if let Some(letter) = self.thread.letters.pop_front() {
            self.control_hears(Event::Letter(letter));
        }
    }

    fn answer_later(&mut self, asked: Asked) {
        let number = self.thread.asked.len() as u32;
        self.thread.asked.push(Some(asked));
        // Whoever waits for an address must not wait for longer than servers and peers are given.
        let is_name = matches!(self.thread.asked[number as usize], Some(Asked::Name(_)));
        let pause = if is_name { self.thread.dice.micros(0..=LOOKUP_MAX) } else { self.control_pause() };
        self.net.borrow_mut().agenda.after(pause, agenda::Event::ControlIsTold { number });
    }

    /// The answer is there.
    pub(crate) fn tell_control(&mut self, number: u32) {
        let Some(asked) = self.thread.asked[number as usize].take() else { return };
        let event = match asked {
            Asked::Name(name) => {
                let found = self.addresses_of(&name);
                Event::Found { name, found }
            }
            Asked::Password(PutPassword { question, .. }) => {
                self.witness.count("verdicts");
                let right = self.plan.auth.password(&question.user, 0, 0);
                let verdict = if self.thread.has_no_judge {
                    for text in ["PAM authentication failed", "LDAP authentication failed"] {
                        *self.archive.excuses.entry(text).or_default() += 1;
                    }
                    Err("the judge cannot be asked".into())
                } else if *right.text() == *question.password.as_bytes() {
                    Ok(())
                } else {
                    Err("the judge says no".into())
                };
                Event::Judged { from: question.from, client: question.client, judge: question.judge, verdict }
            }
            Asked::Hash(HashQuestion { from, asker, origin, derivation }) => {
                self.witness.count("hashes");
                let hashed = if self.thread.has_no_judge && !origin.is_of_servers() {
                    *self.archive.excuses.entry(HASHING_FULL).or_default() += 1;
                    Err("no thread is to be had".into())
                } else {
                    Ok(Arc::new(derivation.run()))
                };
                Event::Hashed { from, asker, hashed }
            }
            Asked::SystemUser(SystemUserQuestion { from, client, uid }) => {
                self.witness.count("users of the system");
                let found = if self.thread.has_no_judge {
                    *self.archive.excuses.entry(SYSTEM_USERS_FULL).or_default() += 1;
                    Err("the system does not answer".into())
                } else {
                    Ok(system_user(uid).map(Into::into))
                };
                Event::SystemUser { from, client, found }
            }
        };
        self.control_hears(event);
    }

    fn addresses_of(&mut self, name: &Arc<str>) -> Found {
        let host = name.strip_prefix("host").map(|host| [10, 200, 0, host.parse().unwrap_or(0)].into());
        match host.or_else(|| address_of_peer(name)).filter(|_| self.thread.are_names_known) {
            Some(address) => Ok(Addresses { all: vec![address], ttl: None }),
            None => {
                self.peers.has_no_address(name.clone(), self.witness.now);
                Err("Name or service not known".into())
            }
        }
    }

    /// An operator changes the configuration, and reloads.
    pub(crate) fn reload(&mut self, shape: &Shape) {
        self.witness.note(|| format!("these settings come into force:\n{}", shape.text()));
        self.disk.write(CONFIGURATION, shape.text());
        self.reload_files();
    }
}

/// The name of the configuration file.
pub(crate) const CONFIGURATION: &str = "world.ini";
/// The stream of chance for how long everything takes outside of the control thread.
const STREAM: u64 = 5;
/// How long a lookup of a name takes, microseconds.
const LOOKUP_MAX: u64 = 2_000;
/// How long everything takes when the world has healed, microseconds.
const HEALED_PAUSE: u64 = 2_000;
/// What a client reads whose password could not be hashed.
const HASHING_FULL: &str = "too many logins wait for their passwords to be hashed";
/// What a client reads whose user could not be looked up.
const SYSTEM_USERS_FULL: &str = "too many logins wait for the names of system users";
