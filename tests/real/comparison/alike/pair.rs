//! A client on each side: both send the same messages, and must have the same answers and session state.
//!
//! Always true: a difference is reported with the answers or the state of both sides.
//! Not here: what is sent (`program`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tests::client::{Answer, Client};
use tests::message::{bind, execute, frame, parse, query, sync};

use super::program::{STARTUPS, Says, Step, statement};
use super::{PATIENCE, Stage};

/// A client on each side.
pub(super) struct Pair {
    pub(super) pooled: Client,
    pub(super) direct: Client,
    /// The transaction status in the last ReadyForQuery.
    pub(super) status: char,
    /// The client is in a transaction, or has state that keeps its server.
    pub(super) is_busy: bool,
    pub(super) listens: bool,
    /// The current role is not the role of the login.
    has_role: bool,
    /// Names of the statements that were prepared by the protocol and run LISTEN.
    listening: BTreeSet<u64>,
    /// Names of the statements that are no query, which must not be run by SQL EXECUTE.
    not_queries: BTreeSet<u64>,
    /// Notifications that one side has received and the other has not.
    heard: [Vec<String>; 2],
    /// PostgreSQL before version 14 reports a parameter whenever it is set, also to the value that it has.
    tells_again: bool,
}

impl Pair {
    /// Both log in with the startup options of this number, and are told the same parameters.
    pub(super) fn come(stage: &Stage, startup: usize) -> Result<Self, String> {
        let login = |address, database: &str| {
            let who = [("user", "u"), ("database", database)];
            let parameters = [&who[..], STARTUPS[startup % STARTUPS.len()]].concat();
            Client::try_login(address, &parameters).map_err(|error| format!("login to {database}: {error:?}"))
        };
        let pooled = login(stage.pooler.address(), &stage.database)?;
        let direct = login(stage.house.postgres.address(), &stage.direct)?;
        if pooled.parameters != direct.parameters {
            return Err(format!("is welcomed with {:?}, and {:?} directly", pooled.parameters, direct.parameters));
        }
        Ok(Self {
            pooled,
            direct,
            status: 'I',
            is_busy: false,
            listens: false,
            has_role: false,
            listening: BTreeSet::new(),
            not_queries: BTreeSet::new(),
            heard: [Vec::new(), Vec::new()],
            tells_again: stage.house.postgres.major() < 14,
        })
    }

    /// Returns whether a step must be left out. One reason is LISTEN in a transaction: a client that listens already has not
    /// yet read the notifications since its transaction began, and receives those that were sent on the new channel before
    /// it listened there, which is an accident of PostgreSQL's queue where one server reads for one client.
    ///
    /// Another is RESET in a transaction, which restores the server's initial value (`docs/operating/running.md`).
    ///
    /// The other reason is SQL EXECUTE of a statement that is no query and was prepared by the protocol: PostgreSQL 15 crashes
    /// on some of them, such as `RELEASE` without a transaction.
    pub(super) fn is_left_out(&self, step: &Step) -> bool {
        if let Says::Simple(sql) | Says::Unnamed(sql) = &step.says
            && sql.contains("execute")
            && !self.not_queries.is_empty()
        {
            return true;
        }
        if matches!(step.says, Says::Prepares(..)) && self.status == 'E' {
            // Whether a taken name or any Parse is refused depends on what stands there.
            return true;
        }
        let resets = match &step.says {
            Says::Simple(sql) | Says::Unnamed(sql) => sql.contains("reset") || sql.contains("default"),
            Says::Executes(name) => self.not_queries.contains(name),
            _ => false,
        };
        if resets && self.status != 'I' {
            return true;
        }
        let listens = match &step.says {
            Says::Simple(sql) | Says::Unnamed(sql) => {
                sql.contains("listen") || sql.contains("execute ") && !self.listening.is_empty()
            }
            Says::Executes(name) => self.listening.contains(name),
            Says::Prepares(..) | Says::Closes(_) | Says::Leaves(_) | Says::Changes(..) => false,
        };
        listens && self.status != 'I'
    }

    pub(super) fn step(&mut self, stage: &Stage, step: &Step) -> Result<(), String> {
        let answer = match &step.says {
            Says::Simple(sql) => self.both(&[query(sql)])?,
            Says::Unnamed(sql) => self.both(&[parse("", sql), bind("", "", &[]), execute("", 0), sync()])?,
            Says::Prepares(name, sql) => {
                let answer = self.both(&[parse(&statement(*name), sql), sync()])?;
                if answer.errors.is_empty() && sql.contains("listen") {
                    self.listening.insert(*name);
                }
                if !sql.starts_with("select") && !sql.starts_with("insert") {
                    self.not_queries.insert(*name);
                }
                answer
            }
            Says::Executes(name) => self.both(&[bind("", &statement(*name), &[]), execute("", 0), sync()])?,
            Says::Closes(name) => {
                let close = [&b"S"[..], statement(*name).as_bytes(), b"\0"].concat();
                self.both(&[frame(b'C', &close), sync()])?
            }
            Says::Changes(of, sql) => return stage.change(*of, sql),
            Says::Leaves(startup) => {
                // No other client has a lock then.
                let had_locks = self.is_busy;
                *self = Self::come(stage, *startup)?;
                return if had_locks { stage.await_no_locks() } else { Ok(()) };
            }
        };
        if answer.tags.iter().any(|tag| tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") {
            self.listening.clear();
            self.not_queries.clear();
        }
        self.listens |= answer.tags.iter().any(|tag| tag == "LISTEN") || format!("{step}").contains("listens(");
        self.is_busy = self.status != 'I';
        if self.status == 'E' {
            return Ok(());
        }
        seen_alike([&mut self.pooled, &mut self.direct])?;
        let answer = self.direct.query(&format!("{KEEPS}, current_user <> session_user"));
        let [keeps, has_role] = [0, 1].map(|at| answer.rows[0][at].as_deref() == Some("t"));
        self.is_busy |= keeps;
        self.has_role = has_role;
        Ok(())
    }

    /// Resets the role, before another session renames or drops a role that the client could have.
    pub(super) fn leave_role(&mut self) -> Result<(), String> {
        if self.has_role {
            self.both(&[query("reset role")])?;
            self.has_role = false;
        }
        Ok(())
    }

    /// Sends the same messages on both sides. Returns the answer.
    pub(super) fn both(&mut self, messages: &[Vec<u8>]) -> Result<Answer, String> {
        let mut sides = [&mut self.pooled, &mut self.direct];
        sides.iter_mut().for_each(|client| client.peer.send(&messages.concat()));
        let tells_again = self.tells_again;
        let [pooled, direct] = sides.map(|client| {
            let mut answer = client.answer_within(PATIENCE);
            if tells_again {
                // Only what the client knows in the end can be compared.
                answer.parameters = client.parameters.clone().into_iter().collect();
            }
            answer
        });
        let told = |answer: &Answer| {
            let complaints = answer.errors.iter().chain(&answer.notices);
            let complaints: Vec<_> = complaints.map(|one| format!("{} {}", one.code, one.text)).collect();
            // PostgreSQL reports several parameters in the order in which they were changed, oldest first or last.
            let mut parameters = answer.parameters.clone();
            parameters.sort();
            format!("{:?} {:?} {complaints:?} {parameters:?} {}", answer.rows, answer.tags, answer.status)
        };
        let (ours, theirs) = (told(&pooled), told(&direct));
        self.status = direct.status;
        if ours == theirs { Ok(direct) } else { Err(format!("is told {ours}, and {theirs} directly")) }
    }
}

/// Compares what both sessions of a client have: settings, role, and what they hold.
///
/// # Errors
/// The first difference.
pub(crate) fn seen_alike(mut sides: [&mut Client; 2]) -> Result<(), String> {
    for sql in [HAS, "show all"] {
        sides.iter_mut().for_each(|client| client.ask(sql));
        // A setting that was reset and whose name has a dot is empty, or was never there: HAS covers that.
        let is_compared =
            |row: &Vec<Option<String>>| sql == HAS || !row[0].as_ref().is_some_and(|name| name.contains('.'));
        let [(pooled, error), (direct, _)] = sides.each_mut().map(|client| {
            let mut answer = client.answer_within(PATIENCE);
            answer.rows.retain(is_compared);
            (answer.rows, answer.errors.pop())
        });
        if let Some(error) = error {
            return Err(format!("is told {} {} when it asks what it has", error.code, error.text));
        }
        if let Some(at) = (0..pooled.len().max(direct.len())).find(|&at| pooled.get(at) != direct.get(at)) {
            return Err(format!("has {:?}, and {:?} directly", pooled.get(at), direct.get(at)));
        }
    }
    Ok(())
}

/// Waits until all clients outside a transaction have received the same notifications on both sides.
pub(super) fn hear(pairs: &mut [Pair]) -> Result<(), String> {
    for (who, pair) in pairs.iter_mut().enumerate().filter(|(_, pair)| pair.listens && pair.status == 'I') {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            for (client, heard) in [&mut pair.pooled, &mut pair.direct].into_iter().zip(&mut pair.heard) {
                client.run("select 1");
                heard.extend(client.has_heard());
            }
            let [pooled, direct] = &mut pair.heard;
            let same = pooled.iter().zip(direct.iter()).take_while(|(ours, theirs)| ours == theirs).count();
            pooled.drain(..same);
            direct.drain(..same);
            match (pooled.is_empty(), direct.is_empty()) {
                (true, true) => break,
                (false, false) => return Err(format!("{who} hears {pooled:?}, and {direct:?} directly")),
                _ if Instant::now() > until => {
                    return Err(format!("{who} hears {pooled:?}, and {direct:?} directly, and no more in 5 s"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Session state that a client can see.
const HAS: &str = "
    select coalesce(nullif(current_setting('app.tenant', true), ''), '-'),
        coalesce(nullif(current_setting('app.other', true), ''), '-'), current_user::text, session_user::text
    union all select 'statement', name, parameter_types::text, '' from pg_prepared_statements where from_sql
    union all select 'cursor', name, '', '' from pg_cursors where is_holdable
    union all select 'lock', mode, classid::text, objid::text from pg_locks
        where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'temporary', relname, '', '' from pg_class where relnamespace = pg_my_temp_schema() and relkind = 'r'
    order by 1, 2, 3, 4";

/// Returns whether a session has state that keeps its server.
pub(crate) const KEEPS: &str = "select exists(select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
    or exists(select from pg_cursors where is_holdable) or exists(select from pg_class where relnamespace = pg_my_temp_schema())
    or exists(select from pg_prepared_statements where from_sql and strpos(statement, chr(92)) > 0)";
