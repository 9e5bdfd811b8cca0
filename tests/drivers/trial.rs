//! One driver at all stages: runs its program, reads its output, and checks the pooler afterwards.
//!
//! Always true: a program that hangs is killed, and its current case has failed; afterwards no client waits and no server is
//! lent in the pooler, and its log has no protocol violation.
//! Not here: how a program is built (`tests::kit`).

use std::collections::BTreeMap;
use std::time::Duration;

use tests::choice::Choice;
use tests::comparison::Program;
use tests::kit::Kit;
use tests::matrix::{Matrix, Outcome};
use tests::pooler::Pooler;
use tests::program::{last_lines, try_run, without_preferences};
use tests::rest;

use crate::stage::{STAGES, Scene, Stage};

/// The output of a program: its driver's version, and the outcomes of the cases.
#[derive(Debug, Default, PartialEq)]
struct Account {
    version: String,
    outcomes: BTreeMap<String, Outcome>,
}

/// Runs it at every selected stage and adds its lines to the matrix.
pub(crate) fn run(scene: &Scene, driver: &Program, kit: &Kit, choice: &Choice, matrix: &mut Matrix) {
    let mut accounts = Vec::new();
    for stage in STAGES.iter().filter(|stage| choice.wants_stage(stage.name)) {
        let mut pooler = scene.pooler(stage, &choice.settings);
        let title = format!("{} {}", driver.name, stage.name);
        let account = play(scene, stage, pooler.as_ref(), kit, choice).unwrap_or_else(|(account, words)| {
            matrix.fail(format!("{title}: {words}"));
            account
        });
        if let Some(pooler) = &mut pooler
            && let Err(words) = rest::check(pooler)
        {
            matrix.fail(format!("{title}: {words}\n{}", last_lines(&pooler.log())));
        }
        accounts.push((stage.name, account));
    }
    let version = accounts.first().map_or(String::new(), |(_, account)| account.version.clone());
    let name = format!("{} {version}", driver.name);
    for case in choice.wanted_cases() {
        let of_case = |account: &Account| {
            account.outcomes.get(case).cloned().unwrap_or(Outcome::Failed("the program says nothing about it".into()))
        };
        let outcomes: Vec<_> = accounts.iter().map(|(stage, account)| (*stage, of_case(account))).collect();
        matrix.add(&name, case, &outcomes);
    }
}

/// Runs the program. Returns its output, and what is wrong outside of the cases, if anything.
fn play(
    scene: &Scene,
    stage: &Stage,
    pooler: Option<&Pooler>,
    kit: &Kit,
    choice: &Choice,
) -> Result<Account, (Account, String)> {
    let mut command = kit.command();
    command.args(choice.wanted_cases());
    command.envs(scene.environment(stage, pooler));
    without_preferences(&mut command);
    let (ended, said) = try_run(&mut command, CASE_MAX * (choice.wanted_cases().count() as u32 + 1));
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

impl Account {
    /// Reads `version WORDS`, `case NAME pass`, `case NAME fail WORDS`, `case NAME none WORDS` and `case NAME limit WORDS`;
    /// other lines are for human readers.
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

    /// Returns the case that was begun last, if it has no outcome.
    fn unfinished(said: &str) -> Option<String> {
        let begun = said.lines().filter_map(|line| line.strip_prefix("begin ")).next_back()?;
        let ended = said.lines().any(|line| line.starts_with(&format!("case {begun} ")));
        (!ended).then(|| begun.to_owned())
    }
}

/// The time limit of a case. The programs have the same limit, and end a case themselves where they can.
const CASE_MAX: Duration = Duration::from_secs(60);
