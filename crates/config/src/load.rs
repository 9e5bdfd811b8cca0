//! From files to settings: reads a file and the files that it includes, and collects all mistakes.
//!
//! Always true: there are settings only if no file contains a mistake. Later lines override earlier ones, whatever
//! section or file they are in. In a running process, settings that only a restart can change keep their values.
//! Not here: the grammar of a line (`text`), the types of settings (`catalog`), contradictions (`check`).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use pool::RateRule;

use crate::catalog::{CATALOG, Entry, Reload, Settings, State, find, unknown};
use crate::check;
use crate::cluster::Cluster;
use crate::database::{DATABASE_KEYS, Database, FALLBACK, Texts, check_auth_dbname};
use crate::diff::restart_needed;
use crate::foreign;
use crate::host::Host;
use crate::mistake::{COMMENT, Mistake, Place, Warning, Wrong, did_you_mean, has_comment};
use crate::peer::Peer;
use crate::rate_limit;
use crate::text::{Item, Items};
use crate::user::UserSettings;

/// Reads a file by its name as written; relative names start at the working directory.
pub(crate) type Reader<'r> = dyn Fn(&str) -> io::Result<Vec<u8>> + 'r;

/// Options of the command line, which override the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// `-u`: the system user to become.
    pub user: Option<String>,
    /// The number of `-v`: added to the setting of the file.
    pub verbose: u32,
    /// `-q`: nothing on standard error.
    pub quiet: bool,
}

/// Settings, and what an operator should know about them.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What will not work as it seems, in the order of the files and without repetitions.
    pub warnings: Vec<Warning>,
    /// Settings whose new values take effect at a restart, because `settings` replaces those of a running process. For
    /// each there is a warning as well.
    pub restart_needed: Vec<&'static str>,
    /// Every file that was read, in the order of reading; a file that was included twice is listed twice.
    pub files: Vec<Arc<str>>,
    /// Number of lines of all files.
    pub lines: u64,
    /// The positions of settings and databases.
    pub places: Places,
}

/// The positions of settings and databases, for warnings that other parts of Trunkline find.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    file: Arc<str>,
    settings: Vec<Option<Place>>,
    databases: BTreeMap<Arc<str>, Place>,
}

impl Places {
    /// The line that set a setting last, or else the file.
    #[must_use]
    pub fn setting(&self, name: &str) -> Place {
        let place = find(name).and_then(|index| self.settings.get(index)?.clone());
        place.unwrap_or_else(|| Place { file: Arc::clone(&self.file), line: 0 })
    }

    /// The line of a database, or else the file.
    #[must_use]
    pub fn database(&self, name: &str) -> Place {
        self.databases.get(name).cloned().unwrap_or_else(|| Place { file: Arc::clone(&self.file), line: 0 })
    }
}

/// Reads the settings of a process that starts.
///
/// # Errors
/// All mistakes of all files, at least one.
pub fn load(path: &str, read: &Reader<'_>, overrides: &Overrides) -> Result<Loaded, Vec<Mistake>> {
    let reading = Reading::new(read, Settings::default()).all(path)?;
    reading.finish(path, overrides, None)
}

/// Reads the settings in order to check them: returns what could be read together with all mistakes.
///
/// # Errors
/// The file itself cannot be read.
pub fn inspect(path: &str, read: &Reader<'_>, overrides: &Overrides) -> Result<(Loaded, Vec<Mistake>), Vec<Mistake>> {
    Ok(Reading::new(read, Settings::default()).all(path)?.conclude(path, overrides, None))
}

/// Reads the settings again for a process that runs with `previous`. As in PgBouncer, settings whose default is NULL
/// keep their value when the file does not mention them. Settings that need a restart keep their value in any case.
///
/// # Errors
/// All mistakes of all files, at least one; `previous` stays in force then.
pub fn load_over(
    previous: &Settings,
    path: &str,
    read: &Reader<'_>,
    overrides: &Overrides,
) -> Result<Loaded, Vec<Mistake>> {
    let mut base = Settings::default();
    for entry in CATALOG.iter().filter(|entry| entry.default.is_none()) {
        (entry.copy)(&mut base, previous);
    }
    let reading = Reading::new(read, base).all(path)?;
    reading.finish(path, overrides, Some(previous))
}

/// Changes one setting of a process that runs with `previous`, by the same rules as a line of the file; no file is
/// read. The key `rate_limits.NAME` is the rate limit of that name, which an empty value removes. The boolean is true
/// if the setting keeps its old value because only a restart changes it.
///
/// # Errors
/// The setting is unknown, the value is invalid, or this version must refuse it; in words for an operator.
pub fn set(previous: &Settings, key: &str, value: &str) -> Result<(Settings, bool), String> {
    let place = Place { file: "SET".into(), line: 0 };
    let no_file = |_: &str| Err(io::ErrorKind::NotFound.into());
    let words = |text: String, advice: Option<String>| match advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    };
    let mut reading = Reading::new(&no_file, previous.clone());
    if let Some(name) = rate_limit::name_of(key) {
        if !value.is_empty() {
            let wrongs = reading.rate_limit(name, value).err().unwrap_or_default();
            return match wrongs.into_iter().next() {
                Some(wrong) => Err(words(wrong.text, wrong.advice)),
                None => Ok((reading.settings, false)),
            };
        }
        return match reading.settings.rate_limits.remove(name) {
            Some(_) => Ok((reading.settings, false)),
            None => Err(format!("there is no rate limit \"{name}\"")),
        };
    }
    reading.setting(key, value, &place).map_err(|wrong| words(wrong.text, wrong.advice))?;
    let is_kept = !reading.keep_started(&place.file, previous).is_empty();
    check::refuse(&reading.settings, &place.file, &BTreeMap::new(), &mut reading.found);
    match reading.found.mistakes.into_iter().next() {
        Some(mistake) => Err(words(mistake.text, mistake.advice)),
        None => Ok((reading.settings, is_kept)),
    }
}

/// The section that the next key belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Main,
    Databases,
    Users,
    Peers,
    Clusters,
    RateLimits,
    /// Its name was reported as a mistake; its keys are not reported as well.
    Unknown,
}

/// The state of reading. A section continues through included files and after them, as in PgBouncer.
struct Reading<'r> {
    read: &'r Reader<'r>,
    settings: Settings,
    found: Found,
    section: Section,
    is_main_seen: bool,
    databases: BTreeMap<Arc<str>, (Place, Database)>,
    texts: Texts,
    open: Vec<Arc<str>>,
    files: Vec<Arc<str>>,
    lines: u64,
}

/// What reading has found, by position.
pub(crate) struct Found {
    /// The line that set each setting of the catalog last.
    pub(crate) set_at: Vec<Option<Place>>,
    /// The first `[peers]` section.
    pub(crate) peers_at: Option<Place>,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) warnings: Vec<Warning>,
}

impl Found {
    /// The line that set a setting, or else the file.
    pub(crate) fn place_of(&self, name: &str, path: &str) -> Place {
        let set_at = find(name).and_then(|index| self.set_at[index].clone());
        set_at.unwrap_or_else(|| Place { file: path.into(), line: 0 })
    }

    /// Adds a warning about a setting.
    pub(crate) fn warn(&mut self, name: &str, path: &str, text: String) {
        let place = self.place_of(name, path);
        self.warnings.push(Warning { place, text });
    }
}

impl<'r> Reading<'r> {
    fn new(read: &'r Reader<'r>, settings: Settings) -> Self {
        let found =
            Found { set_at: vec![None; CATALOG.len()], peers_at: None, mistakes: Vec::new(), warnings: Vec::new() };
        Self {
            read,
            settings,
            found,
            section: Section::None,
            is_main_seen: false,
            databases: BTreeMap::new(),
            texts: Texts::default(),
            open: Vec::new(),
            files: Vec::new(),
            lines: 0,
        }
    }

    /// Reads the file and all included ones. If the file itself cannot be read, that is the only mistake.
    fn all(mut self, path: &str) -> Result<Self, Vec<Mistake>> {
        let file: Arc<str> = path.into();
        let root = Place { file: Arc::clone(&file), line: 0 };
        match (self.read)(path) {
            Err(error) => {
                return Err(vec![Wrong::new(format!("cannot read the configuration file: {error}")).at(root)]);
            }
            Ok(text) => {
                self.file(file, &text);
                // One sentence says more than an error for each line of a file that is meant for another program.
                let owner = foreign::owner(&text).filter(|_| !self.found.mistakes.is_empty());
                if let Some((line, owner)) = owner {
                    let wrong = Wrong::new(format!("this looks like a configuration file of {owner}"));
                    let advice =
                        "Trunkline reads PgBouncer's format: [databases], [pgbouncer] and lines of name = value";
                    let place = Place { file: path.into(), line };
                    return Err(vec![wrong.advise(Some(advice.to_owned())).at(place)]);
                }
            }
        }
        if !self.is_main_seen {
            let wrong = Wrong::new("main section missing from config file")
                .advise(Some("it begins with a line [pgbouncer] or [trunkline]".to_owned()));
            self.found.mistakes.push(wrong.at(root));
        }
        Ok(self)
    }

    fn file(&mut self, file: Arc<str>, text: &[u8]) {
        self.open.push(Arc::clone(&file));
        self.files.push(Arc::clone(&file));
        let mut items = Items::of(text);
        for (line, item) in items.by_ref() {
            let place = Place { file: Arc::clone(&file), line };
            match item {
                Err(what) => {
                    let wrong = Wrong::new(format!("syntax error in configuration ({place}): {what}"));
                    self.found.mistakes.push(wrong.at(place));
                }
                Ok(Item::Section(name)) => self.section(name, place),
                Ok(Item::Include(name)) => self.include(name, place),
                Ok(Item::Pair(key, value)) => self.pair(key, value, place),
            }
        }
        self.lines += u64::from(items.line());
        self.open.pop();
    }

    fn include(&mut self, name: &str, place: Place) {
        let text = match self.readable(name) {
            Ok(text) => text,
            Err(wrong) => return self.found.mistakes.push(wrong.at(place)),
        };
        self.file(name.into(), &text);
    }

    fn readable(&self, name: &str) -> Result<Vec<u8>, Wrong> {
        if let Some(first) = self.open.iter().position(|open| **open == *name) {
            let circle = self.open[first..].iter().map(|file| &**file).chain([name]).collect::<Vec<_>>();
            return Err(Wrong::new(format!("a file includes itself: {}", circle.join(" -> "))));
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX {
            return Err(Wrong::new(format!(
                "include nesting level too deep ({name}), maximum is {INCLUDE_DEPTH_MAX}: {}",
                self.open.join(" -> ")
            )));
        }
        if self.files.len() >= FILES_MAX {
            return Err(Wrong::new(format!("more than {FILES_MAX} files are included")));
        }
        (self.read)(name).map_err(|error| Wrong::new(format!("cannot read the included file \"{name}\": {error}")))
    }

    fn section(&mut self, name: &str, place: Place) {
        self.section = match name {
            "pgbouncer" | "trunkline" => Section::Main,
            "databases" => Section::Databases,
            "users" => Section::Users,
            "peers" => Section::Peers,
            "clusters" => Section::Clusters,
            "rate_limits" => Section::RateLimits,
            _ => Section::Unknown,
        };
        self.is_main_seen |= self.section == Section::Main;
        match self.section {
            Section::Main => self.warn_of_forgetting(name, place),
            Section::Peers => drop(self.found.peers_at.get_or_insert(place)),
            Section::Unknown => {
                let advice = did_you_mean(name, SECTIONS);
                let wrong = Wrong::new(format!("unknown section [{name}] in configuration")).advise(advice);
                self.found.mistakes.push(wrong.at(place));
            }
            _ => {}
        }
    }

    /// At every `[pgbouncer]` line PgBouncer resets the settings of an earlier `[pgbouncer]` section. That would be a
    /// trap, the more so as `[trunkline]` means the same, so we keep the values; but a file written for PgBouncer may
    /// now mean something else.
    fn warn_of_forgetting(&mut self, name: &str, place: Place) {
        let is_forgotten = |index: usize| CATALOG[index].reload == Reload::Live && CATALOG[index].default.is_some();
        let set_before = self.found.set_at.iter().enumerate().filter(|(_, place)| place.is_some());
        if name == "pgbouncer" && set_before.map(|(index, _)| index).any(is_forgotten) {
            let text = "section [pgbouncer] again: what was set under the first one holds, PgBouncer would forget it";
            self.found.warnings.push(Warning { place, text: text.to_owned() });
        }
    }

    fn pair(&mut self, key: &str, value: &str, place: Place) {
        let outcome = match self.section {
            Section::Main => self.setting(key, value, &place).map_err(|wrong| vec![wrong]),
            Section::Databases => self.database(key, value, &place),
            Section::Users => UserSettings::parse(key, value).map(|user| {
                self.settings.users.insert(Arc::clone(&user.name), Arc::new(user));
            }),
            Section::Peers => Peer::parse(key, value).map(|peer| {
                self.settings.peers.insert(peer.id, peer);
            }),
            Section::Clusters => self.cluster(key, value, &place),
            Section::RateLimits => self.rate_limit(key, value),
            Section::None => {
                let text = format!("syntax error in configuration ({place}): \"{key}\" stands before any section");
                Err(vec![Wrong::new(text)])
            }
            Section::Unknown => Ok(()),
        };
        let wrongs = outcome.err().unwrap_or_default();
        self.found.mistakes.extend(wrongs.into_iter().map(|wrong| wrong.at(place.clone())));
    }

    fn setting(&mut self, key: &str, value: &str, place: &Place) -> Result<(), Wrong> {
        let Some(index) = find(key) else {
            let wrong = unknown(key);
            let is_of_databases = wrong.advice.is_none() && DATABASE_KEYS.contains(&key);
            let advice = is_of_databases.then(|| format!("{key}= belongs into a line of [databases]"));
            return Err(if advice.is_some() { wrong.advise(advice) } else { wrong });
        };
        self.found.set_at[index] = Some(place.clone());
        let shown = if CATALOG[index].is_secret { "***" } else { value };
        let bad = format!("invalid value \"{shown}\" for parameter {key} in configuration ({place})");
        let is_commented = has_comment(value) && !CATALOG[index].is_secret;
        (CATALOG[index].set)(&mut self.settings, value).map_err(|misfit| {
            let advice = if is_commented { Some(COMMENT.to_owned()) } else { misfit.advice };
            Wrong::new(format!("{bad}: expected {}", misfit.expected)).advise(advice)
        })?;
        // Sentences and SQL may well end like this.
        if is_commented && !key.ends_with("query") && key != "login_notify_message" {
            let text = format!("the value of {key} ends in what looks like a comment: {COMMENT}");
            self.found.warnings.push(Warning { place: place.clone(), text });
        }
        if key == "auth_dbname" { check_auth_dbname(value) } else { Ok(()) }
    }

    fn database(&mut self, key: &str, value: &str, place: &Place) -> Result<(), Vec<Wrong>> {
        let database = Database::parse(key, value, &mut self.texts)?;
        let name = Arc::clone(&database.name);
        if let Some((first, _)) = self.databases.insert(Arc::clone(&name), (place.clone(), database)) {
            let text = format!("database \"{name}\" is there twice: this line holds, and {first} does not");
            self.found.warnings.push(Warning { place: place.clone(), text });
        }
        Ok(())
    }

    fn cluster(&mut self, name: &str, value: &str, place: &Place) -> Result<(), Vec<Wrong>> {
        let cluster = Cluster::parse(name, value)?;
        if self.settings.clusters.insert(Arc::clone(&cluster.name), Arc::new(cluster)).is_some() {
            let text = format!("cluster \"{name}\" is there twice: this line holds");
            self.found.warnings.push(Warning { place: place.clone(), text });
        }
        if self.settings.clusters.len() > CLUSTERS_MAX {
            return Err(vec![Wrong::new(format!("more than {CLUSTERS_MAX} clusters"))]);
        }
        Ok(())
    }

    /// Gives a database the hosts of its cluster.
    fn join_cluster(&mut self, database: &mut Database, place: &Place) {
        let Some(name) = &database.cluster else { return };
        match self.settings.clusters.get(name).cloned() {
            Some(cluster) => database.take_hosts(&cluster),
            None => {
                let wrong = Wrong::new(format!("database \"{}\": there is no cluster \"{name}\"", database.name));
                let names = self.settings.clusters.keys().map(|name| &**name);
                self.found.mistakes.push(wrong.advise(did_you_mean(name, names)).at(place.clone()));
            }
        }
    }

    fn rate_limit(&mut self, name: &str, value: &str) -> Result<(), Vec<Wrong>> {
        let rule = rate_limit::parse(name, value)?;
        let rules = &mut self.settings.rate_limits;
        if rules.len() >= RateRule::RULES_MAX && !rules.contains_key(&rule.name) {
            return Err(vec![rate_limit::too_many()]);
        }
        rules.insert(Arc::clone(&rule.name), Arc::new(rule));
        Ok(())
    }

    /// Returns the settings only if there is no mistake.
    fn finish(self, path: &str, overrides: &Overrides, previous: Option<&Settings>) -> Result<Loaded, Vec<Mistake>> {
        match self.conclude(path, overrides, previous) {
            (loaded, mistakes) if mistakes.is_empty() => Ok(loaded),
            (_, mistakes) => Err(mistakes),
        }
    }

    /// The steps that need all files to be read.
    fn conclude(mut self, path: &str, overrides: &Overrides, previous: Option<&Settings>) -> (Loaded, Vec<Mistake>) {
        self.override_by(path, overrides, previous);
        let restart_needed = previous.map_or(Vec::new(), |previous| self.keep_started(path, previous));
        let mut places = BTreeMap::new();
        for (name, (place, mut database)) in std::mem::take(&mut self.databases) {
            self.join_cluster(&mut database, &place);
            if database.hosts.is_empty() && database.cluster.is_none() {
                database.hosts.push(self.local_host(&name, &place));
            }
            places.insert(Arc::clone(&name), place);
            match &*name {
                FALLBACK => self.settings.fallback = Some(Arc::new(database)),
                _ => drop(self.settings.databases.insert(name, Arc::new(database))),
            }
        }
        check::refuse(&self.settings, path, &places, &mut self.found);
        check::warn(&self.settings, path, &places, &mut self.found);
        let (settings, Found { set_at, mistakes, warnings, .. }) = (self.settings, self.found);
        let places = Places { file: path.into(), settings: set_at, databases: places };
        (Loaded { settings, warnings, restart_needed, files: self.files, lines: self.lines, places }, mistakes)
    }

    fn override_by(&mut self, path: &str, overrides: &Overrides, previous: Option<&Settings>) {
        let settings = &mut self.settings;
        let is_verbose_read = find("verbose").is_some_and(|index| self.found.set_at[index].is_some());
        // The value that a reload keeps includes the command line's share already.
        if is_verbose_read || previous.is_none() {
            settings.verbose = settings.verbose.saturating_add(overrides.verbose);
        }
        if let Some(user) = &overrides.user {
            settings.user = Some(user.clone());
        }
        settings.quiet = overrides.quiet;
        settings.conffile.get_or_insert_with(|| path.to_owned());
    }

    /// The host of a database without `host=`.
    fn local_host(&mut self, name: &str, place: &Place) -> Host {
        Host::unix(self.settings.unix_socket_dir.as_deref().unwrap_or_else(|| {
            let text = format!(
                "database \"{name}\" has no host and unix_socket_dir is empty: its servers are looked for in {SOCKET_DIR}"
            );
            self.found.warnings.push(Warning { place: place.clone(), text });
            SOCKET_DIR
        }))
    }

    /// Restores the settings of the running process that only a restart can change, and warns of them.
    fn keep_started(&mut self, path: &str, previous: &Settings) -> Vec<&'static str> {
        // A setting without meaning has none after a restart either.
        let is_moot = |name: &&str| find(name).is_some_and(|index| CATALOG[index].state == State::Moot);
        let (moot, changed): (Vec<_>, Vec<_>) = restart_needed(&self.settings, previous).into_iter().partition(is_moot);
        let defaults = Settings::default();
        let is_told = |entry: &Entry| (entry.show)(previous) != (entry.show)(&defaults);
        // A value that differs from the default was reported with the other settings that have no meaning.
        for name in moot.iter().filter(|name| !find(name).is_some_and(|index| is_told(&CATALOG[index]))) {
            self.found.warn(name, path, check::no_meaning(name));
        }
        for name in &changed {
            self.found.warn(name, path, format!("{name} has changed: the new value waits for a restart"));
        }
        for entry in CATALOG.iter().filter(|entry| entry.reload == Reload::Restart) {
            (entry.copy)(&mut self.settings, previous);
        }
        changed
    }
}

/// Each cluster is checked by connections of its own.
const CLUSTERS_MAX: usize = 100;
const SECTIONS: [&str; 7] = ["pgbouncer", "trunkline", "databases", "users", "peers", "clusters", "rate_limits"];
/// Where PostgreSQL puts its unix socket by default (`DEFAULT_PGSOCKET_DIR`).
const SOCKET_DIR: &str = "/tmp";
/// PgBouncer's limit: the main file and nine levels below it.
const INCLUDE_DEPTH_MAX: usize = 10;
/// More files than anybody uses; files that include each other twice could take hours to read.
const FILES_MAX: usize = 10_000;
