//! One driver at all stages: its program is run, its words are read, and the pooler is looked at when it has gone.
//!
//! Always true: a program that hangs is ended, and the case it was at has failed; after it, nobody waits and no server is
//! lent in the pooler, whose log has no protocol surprise.
//! Not here: how a program is made (`kit`).

use std::collections::BTreeMap;
use std::time::Duration;

use tests::client::Client;
use tests::message;
use tests::peer::Peer;
use tests::pooler::Pooler;
use tests::program::try_run;
use tests::wait::{LIMIT, try_wait_for};

use crate::kit::Kit;
use crate::matrix::{Matrix, Outcome};
use crate::options::Options;
use crate::stage::{STAGES, Scene, Stage};

/// What a program said: its driver's version, and what came of the cases.
#[derive(Debug, Default, PartialEq)]
struct Account {
    version: String,
    outcomes: BTreeMap<String, Outcome>,
}

/// Runs it at every stage that is wanted and adds its lines to the matrix.
pub(crate) fn run(scene: &Scene, kit: &Kit, options: &Options, matrix: &mut Matrix) {
    let mut accounts = Vec::new();
    for stage in STAGES.iter().filter(|stage| options.wants_stage(stage.name)) {
        let pooler = scene.pooler(stage);
        let mut account = play(scene, stage, pooler.as_ref(), kit, options);
        if let Some(pooler) = &pooler {
            await_what_the_console_lacks(pooler, &mut account);
            if let Err(words) = look(pooler) {
                matrix.fail(format!("{} {}: {words}\n{}", kit.driver.name, stage.name, tail(pooler)));
            }
        }
        accounts.push((stage.name, account));
    }
    let version = accounts.first().map_or(String::new(), |(_, account)| account.version.clone());
    let name = format!("{} {version}", kit.driver.name);
    for case in options.wanted_cases() {
        let of_case = |account: &Account| {
            account.outcomes.get(case).cloned().unwrap_or(Outcome::Failed("the program says nothing about it".into()))
        };
        let outcomes: Vec<_> = accounts.iter().map(|(stage, account)| (*stage, of_case(account))).collect();
        matrix.add(&name, case, &outcomes);
    }
}

fn play(scene: &Scene, stage: &Stage, pooler: Option<&Pooler>, kit: &Kit, options: &Options) -> Account {
    let mut command = kit.command();
    command.args(options.wanted_cases());
    command.envs(scene.environment(stage, pooler));
    // Variables of the person's own environment must not change what is tested.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("PGPASSFILE", "/dev/null").env("PGSERVICEFILE", "/dev/null");
    let (ended, said) = try_run(&mut command, PROGRAM_MAX);
    let mut account = Account::read(&said.out);
    if let Some(case) = Account::unfinished(&said.out) {
        let how = ended.map_or_else(|| "hung".to_owned(), |status| format!("ended with {status}"));
        account.outcomes.insert(case, Outcome::Failed(format!("the program {how}: {}", last_lines(&said.err))));
    } else if account.outcomes.is_empty() {
        eprintln!("{} at {} said nothing of use:\n{}\n{}", kit.driver.name, stage.name, said.out, said.err);
    }
    account
}

/// The console is its own part of the pooler. What it says itself that it cannot do yet is awaited, and must pass from
/// the moment when it no longer says so.
fn await_what_the_console_lacks(pooler: &Pooler, account: &mut Account) {
    if let Some(outcome) = account.outcomes.get_mut("console_extended")
        && let Outcome::Failed(words) = outcome
        && !console_knows_the_extended_protocol(pooler)
    {
        *outcome = Outcome::Awaited(words.clone());
    }
}

fn console_knows_the_extended_protocol(pooler: &Pooler) -> bool {
    let Ok(mut peer) = Peer::tcp(pooler.address()) else { return false };
    peer.send(&message::startup(0, &[("user", "stats"), ("database", "pgbouncer")]));
    let Ok(mut client) = Client::finish_login(peer, LIMIT) else { return false };
    client.peer.send(&[message::parse("", "show version"), message::sync()].concat());
    client.peer.frame().is_ok_and(|frame| frame.tag == b'1')
}

/// Whether the pooler is at rest and had no surprises.
fn look(pooler: &Pooler) -> Result<(), String> {
    let log = pooler.log();
    if let Some(line) = log.lines().find(|line| line.contains("protocol surprise") || line.contains("panic")) {
        return Err(format!("the log says: {line}"));
    }
    let busy = || {
        let pools = pooler.console("SHOW POOLS");
        let busy = pools.rows.iter().find(|row| {
            let counts = [2, 3, 6, 8].map(|at| row[at].as_deref().unwrap_or("0"));
            row[0].as_deref() != Some("pgbouncer") && counts.iter().any(|count| *count != "0")
        });
        busy.map(|row| format!("{row:?}"))
    };
    match try_wait_for(LIMIT, || busy().is_none().then_some(())) {
        Some(()) => Ok(()),
        None => Err(format!("not at rest: {}", busy().unwrap_or_default())),
    }
}

fn tail(pooler: &Pooler) -> String {
    last_lines(&pooler.log())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().rev().take(LINES_MAX).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n  | ")
}

impl Account {
    /// Takes `version WORDS`, `case NAME pass`, `case NAME fail WORDS` and `case NAME none WORDS` and `case NAME limit WORDS`;
    /// anything else is for a person.
    fn read(said: &str) -> Self {
        let mut account = Self::default();
        for line in said.lines() {
            if let Some(version) = line.strip_prefix("version ") {
                account.version = version.to_owned();
            } else if let Some(rest) = line.strip_prefix("case ") {
                let mut words = rest.splitn(3, ' ');
                let (name, verdict, why) = (words.next(), words.next(), words.next().unwrap_or_default().to_owned());
                let outcome = match verdict {
                    Some("pass") => Outcome::Passed,
                    Some("limit") => Outcome::Limited(why),
                    Some("none") => Outcome::Impossible(why),
                    _ => Outcome::Failed(why),
                };
                account.outcomes.insert(name.unwrap_or_default().to_owned(), outcome);
            }
        }
        account
    }

    /// The case that was begun last, if nothing came of it.
    fn unfinished(said: &str) -> Option<String> {
        let begun = said.lines().filter_map(|line| line.strip_prefix("begin ")).next_back()?;
        let ended = said.lines().any(|line| line.starts_with(&format!("case {begun} ")));
        (!ended).then(|| begun.to_owned())
    }
}

/// For all its cases together.
const PROGRAM_MAX: Duration = Duration::from_secs(600);

const LINES_MAX: usize = 12;
