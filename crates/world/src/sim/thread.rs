//! The control thread of a world, and the files that it reads.
//!
//! Always true: a file has the content that was last written; a question of the thread is kept until it is answered.
//! Not here: what happens to the thread (`control`, beside this).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base::Time;
use config::{Mistake, Overrides, Settings};
use control::{Clocks, Control, FileReader, Files, PutPassword, Source, SystemUserQuestion};
use reactor::LogTarget;
use worker::letters::{ActiveConfig, HashQuestion, Ids, Post, ToControl, ToWorker};

use crate::plan::Plan;
use crate::plan::auth_plan::IDENTS;
use crate::plan::streams::Stream;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::{CERTIFICATE, KEY, papers};
use crate::sim::io::SimSocket;
use crate::sim::mail::Envelope;
use crate::sim::net::OWN_UID;

/// The control thread of the serving process.
pub(crate) struct ControlThread {
    pub(crate) control: Control<SimSocket>,
    /// Its questions that are not answered.
    pub(super) asked: Vec<Option<Asked>>,
    pub(super) dice: Dice,
    /// Letters that wait to be read, in their order, and when the last of them is read.
    pub(super) letters: VecDeque<ToControl>,
    pub(super) reads_until: Time,
    /// When it is woken next.
    pub(super) wakes_at: Option<Time>,
    /// The factor by which answers from outside are slower.
    pub(crate) slowness: u64,
    /// No external authenticator is available.
    pub(crate) has_no_external_auth: bool,
    pub(crate) are_names_known: bool,
    /// The first address of each name cannot be reached.
    pub(crate) has_dead_addresses: bool,
}

/// A question of the control thread to its surroundings.
#[derive(Debug)]
pub(super) enum Asked {
    Name(Arc<str>),
    Password(PutPassword),
    Hash(HashQuestion),
    SystemUser(SystemUserQuestion),
    /// Spans posted to the collector.
    Posting,
}

/// The configuration files, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Disk {
    /// The files of a plan.
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

    /// Reads the settings as a starting process does.
    ///
    /// # Errors
    /// The mistakes in the files.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<Mistake>> {
        self.source().read().map(|loaded| loaded.settings)
    }

    /// Returns the configuration of a process that starts with so many workers.
    pub(crate) fn first_config(&self, settings: Settings, workers: u8) -> ActiveConfig {
        let source = self.source();
        let (users, mut problems) = control::read_users(&settings, source.files()).unwrap_or_default();
        let (hba, idents, lines) =
            control::read_rules(&settings, source.files()).unwrap_or_else(|lines| panic!("{lines:?}"));
        problems.extend(lines);
        assert!(problems.is_empty(), "the files of a plan have a mistake: {problems:?}");
        let tls = control::read_tls(&settings, source.files()).unwrap_or_else(|why| panic!("{why:?}"));
        let log = Arc::new(LogTarget::new(false, None));
        control::first_config(settings, Files { users, rules: (hba, idents), tls }, log, workers, [9; 32], OWN_UID)
    }

    /// The control thread of a process with these workers.
    pub(crate) fn control(
        &self,
        active: &Arc<ActiveConfig>,
        posts: Vec<Post<ToWorker<SimSocket>>>,
        now: Clocks,
        ids: Ids,
    ) -> Control<SimSocket> {
        let speaker = Arc::new(RwLock::new(active.log.clone()));
        Control::new(self.source(), active.clone(), speaker, Vec::new(), posts, now).with_ids(ids)
    }
}

impl ControlThread {
    pub(crate) fn new(plan: &Plan, control: Control<SimSocket>) -> Self {
        let dice = Dice::new(plan.seed, STREAM);
        let has_dead_addresses = Dice::new(plan.seed, Stream::Addresses.number()).chance(DEAD_ADDRESSES);
        Self {
            control,
            asked: Vec::new(),
            letters: VecDeque::new(),
            reads_until: Time(0),
            dice,
            wakes_at: None,
            slowness: 1,
            has_no_external_auth: false,
            are_names_known: true,
            has_dead_addresses,
        }
    }

    /// Replaces the control thread after an online restart; its surroundings stay.
    pub(crate) fn succeed(&mut self, control: Control<SimSocket>) {
        self.control = control;
        self.wakes_at = None;
        // Answers to questions of the old control thread are dropped.
        self.asked.iter_mut().for_each(|asked| *asked = None);
        self.letters.clear();
    }

    /// Returns whether everything is answered.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.asked.iter().all(Option::is_none) && self.letters.is_empty()
    }
}

impl fmt::Debug for ControlThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlThread").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// The control thread's letter boxes of these workers.
pub(crate) fn posts_to(workers: &Range<u8>, mail: &Arc<Mutex<Vec<Envelope>>>) -> Vec<Post<ToWorker<SimSocket>>> {
    let boxes = workers.clone().map(|to| {
        let mail = mail.clone();
        let post: Post<ToWorker<SimSocket>> = Arc::new(move |letter| {
            mail.lock().unwrap_or_else(PoisonError::into_inner).push(Envelope::FromControl { to, letter });
        });
        post
    });
    boxes.collect()
}

/// The name of the configuration file.
pub(crate) const CONFIGURATION: &str = "world.ini";
/// The stream of chance for the surroundings of the control thread.
const STREAM: u64 = 5;
/// How many of a thousand worlds have names with a dead address.
const DEAD_ADDRESSES: u32 = 300;
