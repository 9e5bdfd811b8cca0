//! The control thread of a world, and the files that it reads.
//!
//! Always true: the files are as whoever wrote last has left them; what the thread has asked for is remembered until it is told.
//! Not here: what happens to it (`control`, beside this).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base::Time;
use config::{Mistake, Overrides, Settings};
use control::{Control, FileReader, Files, Moment, PutPassword, Source, SystemUserQuestion};
use reactor::LogTarget;
use worker::letters::{ActiveConfig, HashQuestion, Ids, Post, ToControl, ToWorker};

use crate::plan::Plan;
use crate::plan::auth_plan::IDENTS;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::{CERTIFICATE, KEY, papers};
use crate::sim::io::SimSocket;
use crate::sim::mail::Envelope;
use crate::sim::net::OWN_UID;

/// The control thread of the process that serves.
pub(crate) struct ControlThread {
    pub(crate) control: Control<SimSocket>,
    /// What it has asked for and not been told.
    pub(super) asked: Vec<Option<Asked>>,
    pub(super) dice: Dice,
    /// Letters that it takes its time for, in their order, and when it reads the last of them.
    pub(super) letters: VecDeque<ToControl>,
    pub(super) reads_until: Time,
    /// When it is woken next.
    pub(super) wakes_at: Option<Time>,
    /// What everything outside of it takes its time by.
    pub(crate) slowness: u64,
    /// No external authenticator can be asked.
    pub(crate) has_no_external_auth: bool,
    pub(crate) are_names_known: bool,
}

/// Something that it has to be told.
#[derive(Debug)]
pub(super) enum Asked {
    Name(Arc<str>),
    Password(PutPassword),
    Hash(HashQuestion),
    SystemUser(SystemUserQuestion),
    /// A collector to take spans.
    Posting,
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
        now: Moment,
        ids: Ids,
    ) -> Control<SimSocket> {
        let speaker = Arc::new(RwLock::new(active.log.clone()));
        Control::new(self.source(), active.clone(), speaker, Vec::new(), posts, now).with_ids(ids)
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
            has_no_external_auth: false,
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
pub(crate) fn posts_to(handshake_pool: &Range<u8>, mail: &Arc<Mutex<Vec<Envelope>>>) -> Vec<Post<ToWorker<SimSocket>>> {
    let boxes = handshake_pool.clone().map(|to| {
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
/// The stream of chance for how long everything takes outside of the control thread.
const STREAM: u64 = 5;
