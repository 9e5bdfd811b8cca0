//! One driver at all stages: its program is run, its words are read, and the pooler is looked at when it has gone.
//!
//! Always true: a program that hangs is ended, and the case it was at has failed; after it, nobody waits and no server is
//! lent in the pooler, whose log has no protocol surprise.
//! Not here: how a program is made (`kit`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

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
        let mut pooler = scene.pooler(stage);
        let title = format!("{} {}", kit.driver.name, stage.name);
        let account = play(scene, stage, pooler.as_ref(), kit, options).unwrap_or_else(|(account, words)| {
            matrix.fail(format!("{title}: {words}"));
            account
        });
        if let Some(pooler) = &mut pooler
            && let Err(words) = look(pooler)
        {
            matrix.fail(format!("{title}: {words}\n{}", last_lines(&pooler.log())));
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

/// What the program says; and what is wrong with it beside the cases, if anything is.
fn play(
    scene: &Scene,
    stage: &Stage,
    pooler: Option<&Pooler>,
    kit: &Kit,
    options: &Options,
) -> Result<Account, (Account, String)> {
    let mut command = kit.command();
    command.args(options.wanted_cases());
    command.envs(scene.environment(stage, pooler));
    // Variables of the person's own environment must not change what is tested.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("PGPASSFILE", "/dev/null").env("PGSERVICEFILE", "/dev/null");
    let (ended, said) = try_run(&mut command, CASE_MAX * (options.wanted_cases().count() as u32 + 1));
    let mut account = Account::read(&said.out);
    let how = ended.map_or_else(|| "hung".to_owned(), |status| format!("ended with {status}"));
    if let Some(case) = Account::unfinished(&said.out) {
        account.outcomes.insert(case, Outcome::Failed(format!("the program {how}: {}", last_lines(&said.err))));
    }
    match ended.is_some_and(|status| status.success()) {
        true => Ok(account),
        false => Err((account, format!("the program {how}: {}", last_lines(&said.err)))),
    }
}

/// Whether the pooler is at rest and had no surprises.
fn look(pooler: &mut Pooler) -> Result<(), String> {
    if !pooler.is_running() {
        return Err("the pooler has ended".to_owned());
    }
    let log = pooler.log();
    if let Some(line) = log.lines().find(|line| line.contains("protocol surprise") || line.contains("panic")) {
        return Err(format!("the log says: {line}"));
    }
    let mut busy = None;
    let at_rest = || {
        let pools = pooler.console("SHOW POOLS");
        let mut rows = (0..pools.rows.len()).map(|row| pools.named(row));
        busy = rows.find(|row| row["database"] != "pgbouncer" && AT_REST.iter().any(|column| row[*column] != "0"));
        busy.is_none().then_some(())
    };
    // One that neither ends nor answers is found out by a panic.
    match catch_unwind(AssertUnwindSafe(|| try_wait_for(LIMIT, at_rest))) {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(format!("not at rest: {busy:?}")),
        Err(_) => Err("the console does not answer".to_owned()),
    }
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

/// For a case. The programs have the same limit for each, and end it themselves where they can.
const CASE_MAX: Duration = Duration::from_secs(60);

/// What is zero in SHOW POOLS when nobody is there and nothing is owed.
const AT_REST: [&str; 7] = [
    "cl_active",
    "cl_waiting",
    "cl_active_cancel_req",
    "cl_waiting_cancel_req",
    "sv_active",
    "sv_active_cancel",
    "sv_being_canceled",
];

const LINES_MAX: usize = 12;
