//! Authentication beyond `auth_file`: secrets on servers (`auth_query`), external authenticators (PAM, LDAP), and rules
//! that select the method (HBA).
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change; the error that
//! an application must get is known before it connects.
//! Not here: who answers (`control`), what goes wrong with it (`troubles`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use auth::{ScramSecret, Secret};
use protocol::server::login::Identity;

use crate::app::Guise;
use crate::plan::streams::Stream;
use crate::plan::{AUTODB, CONSOLE, Habits, Person, Plan, Proof, USERS};
use crate::sim::dice::Dice;

/// Texts with one of which an error must begin.
pub(crate) type Words = &'static [&'static str];

/// The authentication that a seed has drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthPlan {
    /// Users that are missing in `auth_file`.
    pub(crate) unlisted: BTreeSet<&'static str>,
    /// Servers are asked for their secrets (`auth_query`).
    pub(crate) is_asked: bool,
    /// An external authenticator checks all passwords: its error for a wrong one.
    authenticator: Option<Words>,
    /// The HBA rules, if there are any.
    rules: Option<Rules>,
    /// Databases that nobody may use, with the error of each.
    misled: Vec<(String, Words)>,
    /// A user has another password on each host.
    has_many: bool,
    /// Secrets are stored as hashes.
    are_hashed: bool,
    /// `auth_query_cache_ttl`, microseconds.
    pub(crate) believed: u64,
    /// How long the control thread takes, least and most, microseconds.
    pub(crate) pause: (u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Rules {
    text: String,
    methods: BTreeMap<&'static str, &'static str>,
    /// The last rule matches everybody.
    has_last: bool,
    /// Clients on the Unix socket are authenticated by `peer`.
    is_local: bool,
}

/// What an application must expect at its login that differs from the usual.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoginPlan {
    wrong: Option<Words>,
    /// The error for a wrong password where the method is `md5` and the secret one of SCRAM: that of the method.
    wrong_for_md5: Option<Words>,
    /// The application has no password, or may be asked for another kind of proof.
    is_sure: bool,
    unknown: Option<Words>,
    nowhere: Option<Words>,
    /// Without `auth_dbname` the console, which is in no database, knows the users of `auth_file` only.
    console: Option<Words>,
    misled: Vec<(String, Words)>,
    /// The user ID of its Unix socket, if it connects by that.
    uid: Option<u32>,
    /// Its passwords on other hosts.
    others: Vec<Arc<Secret>>,
    /// Its previous password.
    pub(crate) old: Option<Arc<Secret>>,
    /// The previous password is no longer accepted anywhere.
    pub(crate) is_old_over: bool,
}

impl LoginPlan {
    /// Returns the user ID of its Unix socket for this connection, if it connects by that: sometimes a wrong one.
    pub(crate) fn uid(&self, dice: &mut Dice, is_gentle: bool) -> Option<u32> {
        let is_impostor = self.uid.is_some() && !is_gentle && dice.chance(100);
        if is_impostor { Some(IMPOSTOR) } else { self.uid }
    }

    /// Returns whether this user ID belongs to another system user.
    pub(crate) fn is_impostor(&self, uid: Option<u32>) -> bool {
        uid.is_some_and(|uid| self.uid != Some(uid))
    }

    /// Returns a guise other than the usual one, now and then.
    pub(crate) fn guise(&self, dice: &mut Dice) -> Option<Guise> {
        // A verdict that reaches the wrong client is noticed only where verdicts differ.
        if self.wrong.is_some() && !self.is_sure && dice.chance(WRONG) {
            return Some(Guise::OtherPassword);
        }
        let is_unusual = !self.misled.is_empty() || !self.others.is_empty() || self.old.is_some();
        if !is_unusual || !dice.chance(UNUSUAL) {
            return None;
        }
        match dice.among(0..=2) {
            0 if !self.misled.is_empty() => Some(Guise::Misled(dice.among(0..=self.misled.len() as u64 - 1) as u8)),
            1 if !self.others.is_empty() && !self.is_sure => {
                Some(Guise::OtherHost(dice.among(0..=self.others.len() as u64 - 1) as u8))
            }
            2 if self.old.is_some() && self.is_old_over && !self.is_sure => Some(Guise::OldPassword),
            _ => None,
        }
    }

    /// Returns the errors for this guise, if they differ from the usual ones.
    pub(crate) fn refusal(&self, guise: Guise) -> Option<Words> {
        match guise {
            Guise::OtherPassword | Guise::OtherHost(_) | Guise::OldPassword => self.wrong.or(self.wrong_for_md5),
            Guise::Nobody => self.unknown,
            Guise::NoDatabase => self.nowhere,
            Guise::Curious => self.console,
            Guise::Misled(at) => self.misled.get(usize::from(at)).map(|(_, words)| *words),
            _ => None,
        }
    }

    /// Changes the identity in the startup packet to fit the guise.
    pub(crate) fn dress(&self, guise: Guise, identity: &mut Identity) {
        match guise {
            Guise::Misled(at) => identity.database = (*self.misled[usize::from(at)].0).into(),
            Guise::OtherHost(at) => identity.secret = self.others[usize::from(at)].clone(),
            Guise::OldPassword => identity.secret = self.old.clone().unwrap_or_default(),
            _ => {}
        }
    }
}

impl AuthPlan {
    /// Returns whether anything differs from `auth_file`.
    pub(crate) fn is_any(&self) -> bool {
        self.is_asked || self.authenticator.is_some() || self.rules.is_some()
    }

    /// Returns whether an external authenticator checks some passwords.
    pub(crate) fn has_external_auth(&self) -> bool {
        self.authenticator.is_some()
            || self.rules.as_ref().is_some_and(|rules| rules.methods.values().any(|is| *is == "ldap"))
    }

    /// A user's password on a host, in its current version or another.
    pub(crate) fn password(&self, user: &str, host: usize, version: u32) -> Secret {
        let mut text = format!("secret of {user}");
        if self.has_many && self.unlisted.contains(user) {
            let _ = write!(text, " at {host}");
        }
        if version > 0 {
            let _ = write!(text, ", number {version}");
        }
        Secret::parse(text)
    }

    /// The same as a server stores it.
    pub(crate) fn stored(&self, user: &str, host: usize, version: u32) -> Arc<Secret> {
        let password = self.password(user, host, version);
        if !self.are_hashed || user == ASKER {
            return Arc::new(password);
        }
        let salt = if version == 0 { user.to_owned() } else { format!("{user}{version}") };
        Arc::new(Secret::parse(ScramSecret::derive(&*password.text(), salt.as_bytes(), 8).to_string()))
    }

    /// The secrets of all users on a host; empty where those of the plan suffice.
    pub(crate) fn secrets(&self, host: usize, versions: &BTreeMap<String, u32>) -> BTreeMap<String, Arc<Secret>> {
        if !self.is_asked {
            return BTreeMap::new();
        }
        let version = |user: &str| versions.get(user).copied().unwrap_or_default();
        let everybody = USERS.iter().chain([&ASKER]);
        everybody.map(|&user| (user.to_owned(), self.stored(user, host, version(user)))).collect()
    }

    /// The text of the HBA file, if there is one.
    pub(crate) fn rules(&self) -> Option<&str> {
        self.rules.as_ref().map(|rules| &*rules.text)
    }

    /// The authentication method of a user, if the rules select it.
    fn method(&self, user: &str) -> Option<&'static str> {
        self.rules.as_ref().map(|rules| rules.methods.get(user).copied().unwrap_or("md5"))
    }

    fn proof(&self, user: &str, usual: Proof) -> Proof {
        match self.method(user) {
            _ if self.authenticator.is_some() => Proof::Password,
            None => usual,
            Some("trust") => Proof::None,
            Some("scram-sha-256") => Proof::Scram,
            Some("md5") if self.are_hashed => Proof::Scram,
            Some(_) => Proof::Password,
        }
    }

    fn wrong(&self, user: &str) -> Option<Words> {
        self.authenticator.or_else(|| (self.method(user) == Some("ldap")).then_some(NO_LDAP))
    }

    fn wrong_for_md5(&self, user: &str) -> Option<Words> {
        let is_by_md5 = self.are_hashed && self.method(user) == Some("md5");
        is_by_md5.then_some(&["password authentication failed"])
    }

    /// The errors for a user that is unknown everywhere.
    fn unknown(&self, user: &str, usual: Proof) -> Words {
        match (self.method(user), usual) {
            (Some("trust"), _) | (None, Proof::None) => &["\"trust\" authentication failed"],
            (Some("scram-sha-256"), _) | (None, Proof::Scram) => &["SASL authentication failed"],
            _ => &["password authentication failed"],
        }
    }
}

impl Plan {
    /// Draws another authentication in some seeds.
    pub(crate) fn draw_auth(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::AuthPlan.number());
        if !dice.chance(170) {
            return;
        }
        self.auth.pause = (0, dice.pick(&[0, 1_000, 50_000, 1_000_000]));
        self.auth.are_hashed = self.secrets["ann"].text().starts_with(b"SCRAM");
        match dice.among(0..=4) {
            0..=1 => self.draw_questions(&mut dice),
            2 => self.draw_external_auth(&mut dice),
            3 => self.draw_rules(&mut dice),
            _ => {
                self.draw_questions(&mut dice);
                self.draw_rules(&mut dice);
            }
        }
        self.draw_troubles(&mut dice);
        for (_, person, _) in &mut self.people {
            person.proof = self.auth.proof(&person.user, self.proof);
        }
    }

    fn draw_questions(&mut self, dice: &mut Dice) {
        let auth = &mut self.auth;
        auth.is_asked = true;
        let unlisted: &[&str] = dice.pick(&[&["ann"], &["bob"], &["ann", "bob"]]);
        auth.unlisted = unlisted.iter().copied().collect();
        let (name, secret) = (ASKER.to_owned(), Arc::new(auth.password(ASKER, 0, 0)));
        self.secrets.insert(name, secret);
        let is_kept = self.shape.databases.iter().any(|db| db.mode == "session");
        let listed = ["ann", "bob"].into_iter().find(|user| !auth.unlisted.contains(user));
        // One user may share its servers with `auth_query`, but only where nobody keeps a server for long.
        let is_shared = !self.is_calm || !is_kept && !self.shape.has_shared_limits();
        let is_shared = is_shared && !auth.are_hashed && dice.chance(500);
        let asker = listed.filter(|_| is_shared).unwrap_or(ASKER);
        let elsewhere = dice.chance(250).then(|| self.shape.databases[0].name.clone());
        auth.has_many = elsewhere.is_none() && dice.chance(500);
        if elsewhere.is_some() && dice.chance(300) {
            auth.unlisted.extend(["admin", "watcher"]);
        }
        self.shape.set("auth_user", asker);
        self.shape.set("auth_query", "SECRET of $1");
        if let Some(name) = elsewhere {
            self.shape.set("auth_dbname", name);
        }
        let secs = dice.pick(&[0, 0, 1, 3, 1000]);
        auth.believed = secs * 1_000_000;
        self.shape.set("auth_query_cache_ttl", secs);
        if self.is_calm {
            self.shape.set("client_login_timeout", 120);
        }
        let kinds: &[&str] = if self.is_calm { &WORDS[..WORDS.len() - 1] } else { &WORDS };
        for _ in 0..dice.among(0..=2) {
            let word = dice.pick(kinds);
            let due: Words = match word {
                "nobody" => NOBODY,
                "none" => gate_words(self.proof),
                "fatal" => &["terminating connection due to administrator command", "server conn crashed?"],
                _ => MISTAKEN,
            };
            let is_there = auth.misled.iter().any(|(name, _)| name.ends_with(word));
            if is_there || word == "none" && self.proof == Proof::None {
                continue;
            }
            let name = format!("misled_{word}");
            let _ =
                writeln!(self.shape.more, "{name} = host=10.200.0.0 auth_user={ASKER} auth_query='SECRET {word} $1'");
            auth.misled.push((name, due));
        }
        // `auth_query` cannot be run in a database that does not exist, or in the console.
        if dice.chance(300) {
            let there = if self.shape.autodb.is_none() { dice.pick(&["nowhere", CONSOLE]) } else { CONSOLE };
            let name = format!("lost_{there}");
            let _ = writeln!(self.shape.more, "{name} = host=10.200.0.0 auth_user={ASKER} auth_dbname={there}");
            auth.misled.push((name, MISTAKEN));
        }
    }

    fn draw_external_auth(&mut self, dice: &mut Dice) {
        let unlisted: &[&str] = dice.pick(&[&[], &["ann"], &["ann", "bob"]]);
        self.auth.unlisted = unlisted.iter().copied().collect();
        let is_pam = dice.chance(500);
        self.auth.authenticator = Some(if is_pam { &["PAM authentication failed"] } else { NO_LDAP });
        self.shape.set("auth_type", if is_pam { "pam" } else { "ldap" });
        if !is_pam {
            self.shape.set("auth_ldap_options", "ldapserver=10.200.0.9 ldapprefix=\"uid=\"");
        }
        self.proof = Proof::Password;
        if dice.chance(400) {
            let _ = writeln!(self.shape.more, "mixed = host=10.200.0.0 auth_user={ASKER}");
            self.auth.misled.push(("mixed".to_owned(), MISTAKEN));
        }
    }

    fn draw_rules(&mut self, dice: &mut Dice) {
        // A client without a password leaves no SCRAM keys for servers that store a hash.
        let needs_keys = self.auth.are_hashed && self.manner.method.is_some();
        let mut rules =
            Rules { is_local: !needs_keys && dice.chance(400), has_last: dice.chance(500), ..Rules::default() };
        if rules.is_local {
            rules.text.push_str(
                dice.pick(&["local all,replication all peer\n", "local all,replication all peer map=crew\n"]),
            );
        }
        for (name, way, method) in [("closed", "host", "reject"), ("sealed", "hostssl", "cert")] {
            if dice.chance(300) {
                let _ = writeln!(self.shape.more, "{name} = host=10.200.0.0");
                let _ = writeln!(rules.text, "{way} {name} all 0.0.0.0/0 {method}\nhost {name} all 0.0.0.0/0 reject");
                self.auth.misled.push((name.to_owned(), &["login rejected", "certificate authentication failed"]));
            }
        }
        for user in USERS {
            let kinds: &[&str] = match needs_keys {
                true => &["ldap", "scram-sha-256", "md5"],
                false => &["ldap", "trust", "password", "md5", "scram-sha-256"],
            };
            // Where servers are asked, passwords differ between hosts, and a database may not leave a user to the
            // directory.
            let kinds = if self.auth.is_asked { &kinds[1..] } else { kinds };
            let method = dice.pick(kinds);
            let end = if method == "ldap" { " ldapserver=10.200.0.9 ldapprefix=\"uid=\"" } else { "" };
            let _ = writeln!(rules.text, "host all,replication {user} 0.0.0.0/0 {method}{end}");
            rules.methods.insert(user, method);
        }
        if rules.has_last {
            rules.text.push_str("host all,replication all 0.0.0.0/0 md5\n");
        }
        self.shape.set("auth_type", "hba");
        self.shape.set("auth_hba_file", "rules");
        self.shape.set("auth_ident_file", "idents");
        self.auth.rules = Some(rules);
    }

    /// Returns the secret of an application, and what differs at its login.
    pub(crate) fn login_plan(
        &self,
        number: u32,
        person: &mut Person,
        habits: &mut Habits,
    ) -> Option<(Arc<Secret>, LoginPlan)> {
        let (auth, user) = (&self.auth, person.user.clone());
        let user = user.as_str();
        if !auth.is_any() {
            return None;
        }
        let is_unlisted = auth.unlisted.contains(user);
        let usual = if auth.authenticator.is_some() { Proof::Password } else { self.proof };
        let host = self.host_of(&person.database);
        let mut login =
            LoginPlan { wrong: auth.wrong(user), wrong_for_md5: auth.wrong_for_md5(user), ..LoginPlan::default() };
        let words = auth.unknown(user, usual);
        let is_judged = auth.wrong(user).is_some();
        login.nowhere = (is_unlisted && !is_judged).then_some(words);
        login.unknown = match &auth.rules {
            _ if auth.authenticator.is_some() => auth.authenticator,
            Some(rules) if !rules.has_last => Some(&["no authentication method is found"]),
            _ if auth.is_asked => Some(NOBODY),
            Some(_) => Some(gate_words(Proof::Password)),
            None => None,
        };
        let is_strange = !person.is_operator() && !person.is_proof_unsure;
        person.proof = auth.proof(user, usual);
        let is_local = auth.rules.as_ref().is_some_and(|rules| rules.is_local);
        if is_local && is_strange && number.is_multiple_of(3) && !self.tls.is_required {
            let is_mapped = auth.rules.as_ref().is_some_and(|rules| rules.text.contains("map="));
            let number = if user == "ann" { 1 } else { 2 };
            login.uid = Some(if is_mapped { MAPPED + number } else { number });
            let stranger: Words = &["unix socket login rejected", "no such user"];
            (login.unknown, login.nowhere) = (Some(stranger), is_unlisted.then_some(stranger));
            person.proof = Proof::None;
            // Nobody needs TLS on the Unix socket.
            habits.tls = 0;
        } else if is_strange && !habits.replicates {
            let is_external_auth = |name: &str| name == "mixed";
            let is_rule = |name: &str| name == "closed" || name == "sealed";
            let concerns = |name: &str| is_rule(name) || is_external_auth(name) || is_unlisted && !is_judged;
            let is_none_unsure = |name: &str| name == "misled_none" && auth.rules.is_some();
            let misled = auth.misled.iter().filter(|(name, _)| concerns(name) && !is_none_unsure(name));
            login.misled = misled.cloned().collect();
            // Where there is a `*` database a reload may move any database to another host.
            if person.proof != Proof::None && auth.has_many && is_unlisted && self.shape.autodb.is_none() {
                let hosts = (0..self.hosts).filter(|&other| other != host);
                login.others = hosts.map(|host| Arc::new(auth.password(user, host, 0))).collect();
            }
        }
        login.console = login.nowhere.filter(|_| !self.shape.settings.contains_key("auth_dbname"));
        login.is_sure = person.is_proof_unsure || person.proof == Proof::None;
        Some((Arc::new(auth.password(user, host, 0)), login))
    }

    /// Returns the host of a database.
    pub(crate) fn host_of(&self, database: &str) -> usize {
        let named = self.shape.databases.iter().find(|db| db.name == database).map(|db| db.host);
        named.or(self.shape.autodb.filter(|_| database == AUTODB)).unwrap_or(0)
    }
}

/// Returns the name of a system user.
pub(crate) fn system_user(uid: u32) -> Option<&'static str> {
    Some(match uid {
        1 => "ann",
        2 => "bob",
        11 => "sysann",
        12 => "sysbob",
        IMPOSTOR => "eve",
        _ => return None,
    })
}

fn gate_words(proof: Proof) -> Words {
    match proof {
        Proof::Scram => &["SASL authentication failed"],
        // A user that is unknown or has no password is asked like one that has a password.
        _ => &["password authentication failed", "SASL authentication failed"],
    }
}

/// The errors for a user that no server knows; the first where the method is `trust`.
const NOBODY: Words = &["no such user", "password authentication failed", "SASL authentication failed"];

/// What `auth_query` may return instead of one secret; the server does not survive the last one.
const WORDS: [&str; 8] = ["nobody", "none", "several", "wide", "unnamed", "other", "torn", "fatal"];
/// The error for a client whose secret cannot be asked for with this configuration.
const MISTAKEN: Words = &["bouncer config error"];
/// The error for a password that the directory rejects.
const NO_LDAP: Words = &["LDAP authentication failed"];
/// The user that runs `auth_query`.
pub(crate) const ASKER: &str = "asker";
/// The user ID of a system user that has no user here.
const IMPOSTOR: u32 = 66;
/// System users whose names a map translates have numbers above this one.
const MAPPED: u32 = 10;
/// How many of a thousand logins use a wrong password with an external authenticator.
const WRONG: u32 = 250;
/// How many of a thousand logins use another guise.
const UNUSUAL: u32 = 80;
/// The ident maps that the rules name.
pub(crate) const IDENTS: &str = "crew sysann ann\ncrew sysbob bob\n";
