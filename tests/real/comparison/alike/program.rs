//! The programs: the steps of clients, and the changes that another session makes.
//!
//! Always true: the same seed draws the same program.
//! Not here: how it is run (`mod`), the changes (`elsewhere`).

use std::fmt;

use base::Random;

use super::CLIENTS;
use super::elsewhere::{CHANGES, Change, Of};

/// A step of a client.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) who: usize,
    pub(super) says: Says,
    /// The step keeps a server, or begins a transaction: only one client may do so at a time, so that the others have a
    /// server.
    pub(super) keeps: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Says {
    Simple(String),
    /// Parse of the unnamed statement, Bind, Execute.
    Unnamed(String),
    /// Parse with this name.
    Prepares(u64, String),
    /// Bind of this statement, Execute.
    Executes(u64),
    /// Close of this statement.
    Closes(u64),
    /// The client disconnects and reconnects, with the startup options of this number.
    Leaves(usize),
    /// No step of the client: another session makes this change.
    Changes(Of, String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.says {
            Says::Simple(sql) => write!(f, "{}: {sql}", self.who),
            Says::Unnamed(sql) => write!(f, "{}: parse, bind, execute: {sql}", self.who),
            Says::Prepares(name, sql) => write!(f, "{}: parse {}: {sql}", self.who, statement(*name)),
            Says::Executes(name) => write!(f, "{}: bind, execute {}", self.who, statement(*name)),
            Says::Closes(name) => write!(f, "{}: close {}", self.who, statement(*name)),
            Says::Leaves(startup) => {
                write!(f, "{}: leaves and comes again with {:?}", self.who, STARTUPS[*startup])
            }
            Says::Changes(_, sql) => write!(f, "somebody else: {sql}"),
        }
    }
}

impl Says {
    /// Fills in the name of the role, which belongs to the whole cluster.
    pub(super) fn with_role(&self, database: &str) -> Self {
        let named = |sql: &String| sql.replace("ROLE", &format!("{database}_role"));
        match self {
            Self::Simple(sql) => Self::Simple(named(sql)),
            Self::Unnamed(sql) => Self::Unnamed(named(sql)),
            Self::Prepares(name, sql) => Self::Prepares(*name, named(sql)),
            Self::Changes(of, sql) => Self::Changes(*of, named(sql)),
            other => other.clone(),
        }
    }
}

impl Step {
    pub(super) fn may_be_heard(&self) -> bool {
        match &self.says {
            Says::Simple(sql) | Says::Unnamed(sql) => sql.contains("notify") || sql.contains("commit"),
            _ => false,
        }
    }
}

/// Draws a program; the same seed draws the same one.
pub(super) fn draw(seed: u64, length: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut steps = Vec::with_capacity(length + 3);
    while steps.len() < length {
        match random.below(CHANGE_EVERY) {
            0 => change(&mut random, &mut steps),
            _ => steps.push(step(&mut random)),
        }
    }
    if seed % LONG_EVERY == 5 {
        // The next server of the client is likely to have other settings.
        let says = Says::Simple(LONG.into());
        steps.insert(length / 2, Step { who: random.below(CLIENTS as u64) as usize, says, keeps: false });
    }
    steps
}

fn step(random: &mut Random) -> Step {
    let mut below = |count: u64| random.below(count);
    let who = below(CLIENTS as u64) as usize;
    // A few clients take most of the steps: otherwise no session would do much.
    let who = if below(2) == 0 { who % 4 } else { who };
    let (sql, keeps) = match below(20) {
        0..7 => (KEEPING[below(KEEPING.len() as u64) as usize], true),
        _ => (STEPS[below(STEPS.len() as u64) as usize], false),
    };
    let sql = sql.replace('#', &below(3).to_string());
    let is_one = !sql.contains("; ");
    let says = match below(10) {
        0 if is_one => Says::Unnamed(sql),
        1 if is_one && !NAMES.iter().any(|name| sql.contains(name)) => Says::Prepares(below(STATEMENTS), sql),
        2 => Says::Executes(below(STATEMENTS)),
        3 if below(4) == 0 => Says::Leaves(below(STARTUPS.len() as u64) as usize),
        4 if below(4) == 0 => Says::Closes(below(STATEMENTS)),
        _ => Says::Simple(sql),
    };
    // A prepared statement may be of any kind.
    let is_execution = matches!(&says, Says::Simple(sql) | Says::Unnamed(sql) if sql.contains("execute "));
    let keeps = keeps || is_execution || matches!(says, Says::Executes(_));
    Step { who, says, keeps }
}

/// Another session makes a change, and some clients use the changed object.
fn change(random: &mut Random, steps: &mut Vec<Step>) {
    let mut below = |count: usize| random.below(count as u64) as usize;
    let Change { sql, of, then } = &CHANGES[below(CHANGES.len())];
    steps.push(Step { who: 0, says: Says::Changes(*of, sql.replace('#', &below(3).to_string())), keeps: false });
    for _ in 0..2 {
        let sql = then[below(then.len())].replace('#', &below(3).to_string());
        let keeps = sql.contains("execute ") || sql.contains("locks") || sql.starts_with("begin");
        steps.push(Step { who: below(CLIENTS), says: Says::Simple(sql), keeps });
    }
}

/// The name of a statement; some names are also used by SQL PREPARE.
pub(super) fn statement(number: u64) -> String {
    if number < 4 { format!("s{number}") } else { format!("p{}", number - 4) }
}

const STATEMENTS: u64 = 6;

/// One of so many steps is a change by another session.
const CHANGE_EVERY: u64 = 30;
/// One of so many programs has a statement that lasts longer than the pooler's timers.
const LONG_EVERY: u64 = 8;
/// Longer than [`TIMERS`](super::TIMERS) are.
const LONG: &str = "select pg_sleep(1.8) is null, current_setting('work_mem')";

/// Statements that are prepared by the protocol contain none of these names: where the server has a statement of this text
/// already, an unknown name is reported at the Bind and not at the Parse.
const NAMES: [&str; 17] = [
    "t0",
    "t1",
    "t2",
    " u",
    "kept",
    "nowhere",
    "selekt",
    "touch(",
    "lost(",
    "locks(",
    "listens(",
    "prepares(",
    "makes(",
    "kind",
    "whose(",
    "small",
    "mood",
];

/// Steps that begin a transaction or make a session keep its server.
const KEEPING: [&str; 29] = [
    "begin; set datestyle = 'SQL, MDY'; rollback",
    "begin; set client_encoding = 'LATIN1'; set local standard_conforming_strings = off; rollback",
    "begin; set timezone = 'America/Lima'; savepoint s#; set intervalstyle = 'iso_8601'; rollback to s#; commit",
    "begin; set application_name = 'inside #'",
    "begin; set local timezone = 'Asia/Tokyo'; set local datestyle = 'German'",
    "begin",
    "begin",
    "begin; set app.tenant = 'b#'",
    "begin; prepare p# as select 'in', #; savepoint s#",
    "begin; notify n#, 'in'",
    "select pg_advisory_lock(#)",
    "select pg_try_advisory_lock(#)",
    "select pg_advisory_lock_shared(#, 1)",
    "select pg_advisory_lock(a) from generate_series(1, #) a",
    "select locks(#)",
    "create temp table t#(a int)",
    "select # as a into temp t#",
    "select makes('t#')",
    "create temp table if not exists u as select * from kept",
    "begin; declare c# cursor with hold for select generate_series(1, 5); commit",
    "begin; declare c# cursor with hold for select 1; rollback",
    "prepare w# as select '\\d'",
    "begin; create temp table v#(a int) on commit drop; insert into v# values (1); commit",
    "begin; select pg_advisory_xact_lock(#); savepoint s#; select pg_advisory_lock(1); rollback to s#; commit",
    "begin; set local app.tenant = 'gone'; select touch('app.other', 'kept'); commit",
    "begin; listen n#; rollback",
    "do $$ begin perform makes('t#'); perform locks(#); end $$",
    "begin; set local search_path = one; select a from who",
    "begin; set search_path = two; savepoint s#; select a from kind",
];

/// Startup options: of parameters that servers report, that the pooler is told to track, and of neither. A client in another
/// encoding than UTF8 would keep its server for each LISTEN.
pub(super) const STARTUPS: [&[(&str, &str)]; 12] = [
    &[],
    &[("options", "-c search_path=two")],
    &[("TimeZone", "Asia/Tokyo"), ("DateStyle", "German, DMY")],
    &[("application_name", "starts")],
    &[("options", "-c intervalstyle=sql_standard -c work_mem=7MB")],
    &[("statement_timeout", "1min"), ("options", "-c default_transaction_isolation=serializable")],
    &[("client_encoding", "utf-8"), ("options", "-c app.tenant=started")],
    &[("options", "-c search_path=one,public -c TimeZone=Etc/GMT+2 -c extra_float_digits=0")],
    &[("extra_float_digits", "3"), ("IntervalStyle", "iso_8601")],
    &[("options", "-c standard_conforming_strings=off -c datestyle=sql,dmy")],
    &[("default_transaction_isolation", "repeatable read"), ("search_path", "two, one"), ("application_name", "")],
    &[("options", "-c application_name=by\\ options -c lock_timeout=1h -c default_transaction_deferrable=on")],
];

const STEPS: [&str; 130] = [
    "set intervalstyle = 'iso_8601'",
    "set intervalstyle to default",
    "reset intervalstyle",
    "set local intervalstyle = 'postgres_verbose'",
    "select touch('intervalstyle', 'sql_standard')",
    "select touch('DateStyle', 'German')",
    "do $$ begin perform set_config('timezone', 'Etc/GMT-#', false); end $$",
    "set application_name = 'a#'",
    "set application_name = 'a#'",
    "reset application_name",
    "select set_config('application_name', 'f#', false)",
    "set local application_name = 'local'",
    "set client_encoding = 'unicode'",
    "set names 'UTF8'",
    "reset client_encoding",
    "set standard_conforming_strings = off",
    "reset standard_conforming_strings",
    "set datestyle = 'Postgres'; select 1/0",
    "set datestyle = 'German'; set datestyle = 'ISO'; set timezone = 'UTC'",
    "set default_transaction_read_only = off",
    "reset default_transaction_read_only",
    "set session authorization u",
    "set extra_float_digits = #",
    "select 1::small::text",
    "prepare p# as select 2::small::text",
    "prepare p# as select 'glad'::mood::text",
    "select 'sad'::mood::text",
    "prepare p# as select whose()",
    "set role ROLE",
    "execute s#",
    "execute s#",
    "select 1; execute s#; select 2",
    "explain (costs off) execute s#",
    "deallocate s#",
    "select 1; deallocate s#; select 1/0",
    "prepare s# as select 'by SQL', #",
    "execute s1(7)",
    "set app.tenant = 't#'",
    "set app.tenant to default",
    "set session app.other to 'o#'",
    "set local app.tenant = 'local#'",
    "set search_path = one, \"two\"",
    "set search_path to two, public",
    "reset search_path",
    "set work_mem = '#1MB'",
    "set work_mem to 2048",
    "reset work_mem",
    "set statement_timeout = '1#s'",
    "set time zone 'Etc/GMT+#'",
    "set datestyle = 'SQL, DMY'",
    "reset datestyle",
    "reset timezone",
    "set role ROLE",
    "reset role",
    "set session characteristics as transaction isolation level serializable",
    "reset default_transaction_isolation",
    "select set_config('app.tenant', 'c#', false)",
    "select set_config('app.tenant', 'x#', true), set_config('app.other', 'y#', false)",
    "select touch('app.other', 'f#')",
    "select lost('no')",
    "do $$ begin perform set_config('app.tenant', 'd#', false); end $$",
    "do $$ begin execute 'set app.other = e#'; end $$",
    "reset all",
    "discard all",
    "discard temp",
    "discard plans",
    "commit",
    "commit",
    "commit",
    "rollback",
    "rollback",
    "savepoint s#",
    "rollback to s#",
    "release s#",
    "commit and chain",
    "set app.tenant = 'm#'; select 1/0; set app.other = 'never'",
    "select 1",
    "select 1/0",
    "selekt",
    "insert into kept values (#)",
    "prepare p# as select '#', current_setting('work_mem')",
    "prepare p#(int) as select $1 + #",
    "prepare p# as insert into kept values (#)",
    "prepare q as select set_config('app.other', 'q#', false)",
    "select 1; prepare p# as select 'both'; execute p#",
    "select prepares('q')",
    "prepare missing as select * from nowhere",
    "execute p#",
    "execute p#",
    "execute p#(7)",
    "execute q",
    "explain execute p#",
    "execute w#",
    "deallocate p#",
    "deallocate q",
    "deallocate all",
    "deallocate w#",
    "select pg_advisory_unlock(#)",
    "select pg_advisory_unlock_shared(#, 1)",
    "select pg_advisory_unlock_all()",
    "select pg_try_advisory_xact_lock(#)",
    "insert into t# values (#)",
    "select count(*) from t#",
    "drop table t#",
    "drop table u",
    "drop table if exists t#",
    "alter table t# rename to u",
    "fetch 2 from c#",
    "move all from c#",
    "close c#",
    "close all",
    "listen n#",
    "select listens('n#')",
    "notify n#, 'm#'",
    "select pg_notify('n#', 'f')",
    "select pg_notify('n1', 'of ' || a) from generate_series(1, 2) a",
    "notify n#; notify n#; notify n1, 'other'",
    "unlisten n#",
    "unlisten *",
    "select a from who",
    "select a from who",
    "select a, # from who",
    "select whose()",
    "select a from kind",
    "prepare p# as select a from who",
    "set search_path = one",
    "set local search_path = two",
    "select set_config('search_path', 'one', true)",
    "select set_config('search_path', 'two', false)",
    "do $$ begin perform set_config('search_path', 'one', false); end $$",
];
