//! Random programs that use all that a session may have: of many clients on few servers, and each on a connection of its own.
//!
//! Always true: what each client is told is the same on both sides, and so is, after each step, what its session has; a program that
//! differs is told as short as it can be made.
//! Not here: the messages of the protocol in any order and torn (`differential`).

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use base::Random;
use tests::client::{Answer, Client};
use tests::message::{bind, execute, frame, parse, query, sync};
use tests::pooler::Pooler;

use crate::house::House;

/// Some programs, each time.
pub(crate) fn random_sessions_are_what_they_would_be_on_a_direct_connection(house: &House) {
    let stage = Stage::open(house, "alike");
    for seed in 0..8 {
        stage.perform(seed, 250);
    }
}

/// As many steps as `TRUNKLINE_SESSION_STEPS` says, from the seed `TRUNKLINE_SESSION_SEED` on.
pub(crate) fn as_many_random_sessions_as_wanted(house: &House) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("TRUNKLINE_SESSION_STEPS").unwrap_or(STEPS_EACH as u64);
    let first = number("TRUNKLINE_SESSION_SEED").unwrap_or(1000);
    let stage = Stage::open(house, "alike_long");
    let programs = steps.div_ceil(STEPS_EACH as u64);
    for seed in first..first + programs {
        stage.perform(seed, STEPS_EACH);
        if (seed - first + 1) % 100 == 0 {
            println!("{} steps are alike", (seed - first + 1) * STEPS_EACH as u64);
        }
    }
}

/// The steps of one program, where many are wanted.
const STEPS_EACH: usize = 500;
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
const CLIENTS: usize = 20;
const SERVERS: usize = 2;

/// The pooler, and two databases that are the same: what clients lock and notify on one side is not seen on the other.
struct Stage<'a> {
    house: &'a House,
    pooler: Pooler,
    database: String,
    direct: String,
}

/// What a client does.
#[derive(Clone, Debug)]
struct Step {
    who: usize,
    says: Says,
    /// It keeps a server, or begins a transaction: one client may do so at a time, so that there is a server for the others.
    keeps: bool,
}

#[derive(Clone, Debug)]
enum Says {
    Simple(String),
    /// A Parse of no name, a Bind, an Execute.
    Unnamed(String),
    /// A Parse of this name.
    Prepares(u64, String),
    /// A Bind of this name, an Execute.
    Executes(u64),
    /// A Close of this name.
    Closes(u64),
    /// It leaves, and comes again.
    Leaves,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.says {
            Says::Simple(sql) => write!(f, "{}: {sql}", self.who),
            Says::Unnamed(sql) => write!(f, "{}: parse, bind, execute: {sql}", self.who),
            Says::Prepares(name, sql) => write!(f, "{}: parse {}: {sql}", self.who, statement(*name)),
            Says::Executes(name) => write!(f, "{}: bind, execute {}", self.who, statement(*name)),
            Says::Closes(name) => write!(f, "{}: close {}", self.who, statement(*name)),
            Says::Leaves => write!(f, "{}: leaves and comes again", self.who),
        }
    }
}

impl<'a> Stage<'a> {
    fn open(house: &'a House, database: &str) -> Self {
        let direct = format!("{database}_direct");
        let size = format!("default_pool_size = {SERVERS}");
        let pooler = house.pooler(database, &["pool_mode = transaction", &size, "max_prepared_statements = 50"]);
        let mut setup = house.postgres.client(database);
        setup.run(&format!("create database {direct}"));
        setup.run(&format!("create role {database}_role; grant {database}_role to u"));
        for database in [database, &direct] {
            let mut setup = house.postgres.client(database);
            setup.run("create schema one; create schema two; grant all on schema public to u");
            setup.run(FUNCTIONS);
        }
        Self { house, pooler, database: database.into(), direct }
    }

    /// Plays a program; one that differs is made shorter first.
    fn perform(&self, seed: u64, length: usize) {
        let mut steps = draw(seed, length);
        let Err(mut why) = self.try_play(&steps) else { return };
        println!("seed {seed}: {why}");
        let mut size = steps.len() / 2;
        let until = Instant::now() + Duration::from_secs(60);
        while size > 0 && Instant::now() < until {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + size).min(steps.len()));
                match self.try_play(&fewer) {
                    Err(other) => (steps, why) = (fewer, other),
                    Ok(()) => at += size,
                }
            }
            size /= 2;
        }
        let told: Vec<String> = steps.iter().map(Step::to_string).collect();
        panic!("seed {seed}, {why}:\n{}", told.join("\n"));
    }

    /// What a client waits for in vain is a difference, too.
    fn try_play(&self, steps: &[Step]) -> Result<(), String> {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.play(steps)));
        played.unwrap_or_else(|why| Err(why.downcast_ref::<String>().cloned().unwrap_or_default()))
    }

    /// What a client has locked is free when it has left, on either side as soon as that is noticed.
    fn await_no_locks(&self) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(1);
        let locks = format!(
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database
             where locktype = 'advisory' and datname in ('{}', '{}')",
            self.database, self.direct
        );
        while self.house.postgres.value(&locks) != "0" {
            if Instant::now() > until {
                return Err("a lock is left one second after its client".into());
            }
        }
        Ok(())
    }

    fn play(&self, steps: &[Step]) -> Result<(), String> {
        let mut pairs: Vec<Pair> = (0..CLIENTS).map(|_| Pair::come(self)).collect();
        for step in steps {
            let is_taken = pairs.iter().enumerate().any(|(at, pair)| at != step.who && pair.is_busy);
            if step.keeps && is_taken || pairs[step.who].is_early(step) {
                continue;
            }
            let step = Step { says: step.says.with_role(&self.database), ..step.clone() };
            pairs[step.who].step(self, &step).map_err(|why| format!("{step}: {why}"))?;
            if step.may_be_heard() {
                hear(&mut pairs).map_err(|why| format!("{step}: {why}"))?;
            }
        }
        // Whoever has heard too much has heard it before this.
        for pair in &mut pairs {
            pair.both(&[query("rollback")])?;
            pair.both(&[query("unlisten *; listen last")])?;
            pair.listens = true;
        }
        pairs[0].both(&[query("notify last")])?;
        hear(&mut pairs)?;
        drop(pairs);
        self.await_no_locks()
    }
}

impl Says {
    /// The role is all databases'.
    fn with_role(&self, database: &str) -> Self {
        let named = |sql: &String| sql.replace("ROLE", &format!("{database}_role"));
        match self {
            Self::Simple(sql) => Self::Simple(named(sql)),
            Self::Unnamed(sql) => Self::Unnamed(named(sql)),
            Self::Prepares(name, sql) => Self::Prepares(*name, named(sql)),
            other => other.clone(),
        }
    }
}

impl Step {
    fn may_be_heard(&self) -> bool {
        match &self.says {
            Says::Simple(sql) | Says::Unnamed(sql) => sql.contains("notify") || sql.contains("commit"),
            _ => false,
        }
    }
}

/// A client on each side.
struct Pair {
    pooled: Client,
    direct: Client,
    /// Of its transaction, as the last ReadyForQuery had it.
    status: char,
    /// It is in a transaction, or has something that keeps its server.
    is_busy: bool,
    listens: bool,
    /// The statements that it has prepared by the protocol and that LISTEN.
    listening: BTreeSet<u64>,
    /// Those that SQL is not to execute.
    crashing: BTreeSet<u64>,
    /// What each side has heard that the other has not.
    heard: [Vec<String>; 2],
}

impl Pair {
    fn come(stage: &Stage) -> Self {
        Self {
            pooled: stage.pooler.client("u", &stage.database),
            direct: Client::login(stage.house.postgres.address(), "u", &stage.direct),
            status: 'I',
            is_busy: false,
            listens: false,
            listening: BTreeSet::new(),
            crashing: BTreeSet::new(),
            heard: [Vec::new(), Vec::new()],
        }
    }

    /// Whether it is in a transaction and would LISTEN there. Who listens already has not read yet what was told since its transaction began, and hears
    /// of the new channel what was told before it listened to that: an accident of PostgreSQL's queue, where one server reads for one client.
    ///
    /// Or it would execute by SQL what is no query and was prepared by the protocol: of some of that PostgreSQL 15 crashes, such as `RELEASE`
    /// without a transaction.
    fn is_early(&self, step: &Step) -> bool {
        if let Says::Simple(sql) | Says::Unnamed(sql) = &step.says
            && sql.contains("execute")
            && !self.crashing.is_empty()
        {
            return true;
        }
        if matches!(step.says, Says::Prepares(..)) && self.status == 'E' {
            // Whether a name that is taken is refused, or any Parse, depends on what stands there.
            return true;
        }
        let listens = match &step.says {
            Says::Simple(sql) | Says::Unnamed(sql) => {
                sql.contains("listen") || sql.contains("execute s") && !self.listening.is_empty()
            }
            Says::Executes(name) => self.listening.contains(name),
            Says::Prepares(..) | Says::Closes(_) | Says::Leaves => false,
        };
        listens && self.status != 'I'
    }

    fn step(&mut self, stage: &Stage, step: &Step) -> Result<(), String> {
        let answer = match &step.says {
            Says::Simple(sql) => self.both(&[query(sql)])?,
            Says::Unnamed(sql) => self.both(&[parse("", sql), bind("", "", &[]), execute("", 0), sync()])?,
            Says::Prepares(name, sql) => {
                let answer = self.both(&[parse(&statement(*name), sql), sync()])?;
                if answer.errors.is_empty() && sql.contains("listen") {
                    self.listening.insert(*name);
                }
                if !sql.starts_with("select") && !sql.starts_with("insert") {
                    self.crashing.insert(*name);
                }
                answer
            }
            Says::Executes(name) => self.both(&[bind("", &statement(*name), &[]), execute("", 0), sync()])?,
            Says::Closes(name) => {
                let close = [&b"S"[..], statement(*name).as_bytes(), b"\0"].concat();
                self.both(&[frame(b'C', &close), sync()])?
            }
            Says::Leaves => {
                // Nobody else has a lock then.
                let had_locks = self.is_busy;
                *self = Self::come(stage);
                return if had_locks { stage.await_no_locks() } else { Ok(()) };
            }
        };
        if answer.tags.iter().any(|tag| tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") {
            self.listening.clear();
            self.crashing.clear();
        }
        self.listens |= answer.tags.iter().any(|tag| tag == "LISTEN") || format!("{step}").contains("listens(");
        self.is_busy = self.status != 'I';
        if self.status == 'E' {
            return Ok(());
        }
        let [pooled, direct] = [&mut self.pooled, &mut self.direct].map(seen);
        if let Some((pooled, direct)) = pooled.iter().zip(&direct).find(|(pooled, direct)| pooled != direct) {
            return Err(format!("has {pooled:?}, and {direct:?} directly"));
        }
        self.is_busy |= self.direct.value(KEEPS) == "t";
        Ok(())
    }

    /// Says the same on both sides; what is answered.
    fn both(&mut self, messages: &[Vec<u8>]) -> Result<Answer, String> {
        let [pooled, direct] = [&mut self.pooled, &mut self.direct].map(|client| {
            client.peer.send(&messages.concat());
            client.answer_within(PATIENCE)
        });
        let told = |answer: &Answer| {
            let complaints = answer.errors.iter().chain(&answer.notices);
            let complaints: Vec<_> = complaints.map(|one| format!("{} {}", one.code, one.text)).collect();
            format!("{:?} {:?} {complaints:?} {}", answer.rows, answer.tags, answer.status)
        };
        let (ours, theirs) = (told(&pooled), told(&direct));
        self.status = direct.status;
        if ours == theirs { Ok(direct) } else { Err(format!("is told {ours}, and {theirs} directly")) }
    }
}

/// What a session has: settings, who it is, and what it holds.
pub(crate) fn seen(client: &mut Client) -> Vec<String> {
    let mut told = |sql: &str| {
        client.ask(sql);
        client.answer_within(PATIENCE)
    };
    let mut seen: Vec<String> = told(HAS).rows.iter().map(|row| format!("{row:?}")).collect();
    let settings = told("show all");
    // One with a dot that has been reset is empty, or was never there: that is told by HAS.
    let settings = settings.rows.iter().filter(|row| !row[0].as_ref().is_some_and(|name| name.contains('.')));
    seen.extend(settings.map(|row| format!("{:?} = {:?}", row[0], row[1])));
    seen
}

/// Waits until all who are in no transaction have heard the same on both sides.
fn hear(pairs: &mut [Pair]) -> Result<(), String> {
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

/// A program: the same for the same seed.
fn draw(seed: u64, length: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut below = move |count: u64| random.below(count);
    let step = |_| {
        let who = below(CLIENTS as u64) as usize;
        // Some do most of it: otherwise nobody would do much in one session.
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
            3 if below(8) == 0 => Says::Leaves,
            4 if below(4) == 0 => Says::Closes(below(STATEMENTS)),
            _ => Says::Simple(sql),
        };
        // What has been prepared may be anything.
        let is_execution = matches!(&says, Says::Simple(sql) | Says::Unnamed(sql) if sql.contains("execute s"));
        let keeps = keeps || is_execution || matches!(says, Says::Executes(_));
        Step { who, says, keeps }
    };
    (0..length).map(step).collect()
}

/// What a statement is called: some as by SQL.
fn statement(number: u64) -> String {
    if number < 4 { format!("s{number}") } else { format!("p{}", number - 4) }
}

const STATEMENTS: u64 = 6;

const FUNCTIONS: &str = "
    create function touch(text, text) returns text language sql as $$ select set_config($1, $2, false) $$;
    create function lost(text) returns int language plpgsql as
        $$ begin perform set_config('app.other', $1, false); return 1 / 0; end $$;
    create function locks(int) returns void language plpgsql as $$ begin perform pg_advisory_lock($1); end $$;
    create function listens(text) returns void language plpgsql as $$ begin execute 'listen ' || $1; end $$;
    create function prepares(text) returns void language plpgsql as
        $$ begin execute 'prepare ' || $1 || ' as select set_config(''app.other'', ''' || $1 || ''', false)'; end $$;
    create function makes(text) returns void language plpgsql as
        $$ begin execute 'create temp table ' || $1 || '(a int)'; end $$;
    create table kept (a int); grant all on kept to u;
    create table who as select 'public' as a; create table one.who as select 'one' as a; create table two.who as select 'two' as a;
    create table one.kind as select 1 as a; create table two.kind as select 'text' as a;
    grant usage on schema one, two to public; grant select on who, one.who, two.who, one.kind, two.kind to public;
    create function whose() returns text language sql as $$ select a from who $$";

/// What a client sees of its session.
const HAS: &str = "
    select coalesce(nullif(current_setting('app.tenant', true), ''), '-'),
        coalesce(nullif(current_setting('app.other', true), ''), '-'), current_user::text, session_user::text
    union all select 'statement', name, parameter_types::text, '' from pg_prepared_statements where from_sql
    union all select 'cursor', name, '', '' from pg_cursors where is_holdable
    union all select 'lock', mode, classid::text, objid::text from pg_locks
        where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'temporary', relname, '', '' from pg_class where relnamespace = pg_my_temp_schema() and relkind = 'r'
    order by 1, 2, 3, 4";

/// Whether a session has what keeps its server.
pub(crate) const KEEPS: &str = "select exists(select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
    or exists(select from pg_cursors where is_holdable) or exists(select from pg_class where relnamespace = pg_my_temp_schema())
    or exists(select from pg_prepared_statements where from_sql and strpos(statement, chr(92)) > 0)";

/// What the protocol prepares has none of these in it: whether a name means anything is told with the Bind, not with the Parse, where the
/// server has a statement of this text already.
const NAMES: [&str; 14] = [
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
];

/// Steps that begin a transaction, or have a session keep its server.
const KEEPING: [&str; 24] = [
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

const STEPS: [&str; 101] = [
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
