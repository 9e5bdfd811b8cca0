//! One tool at all stages: runs its replicas, kills one of them, and checks PostgreSQL.
//!
//! Always true: at every stage each migration must be applied once, and no advisory lock may be left a second after its
//! replica; the outcome through a pooler must be that of the direct stage.
//! Not here: what a tool leaves behind when it is killed (`tools`).

use std::time::{Duration, Instant};

use tests::choice::Choice;
use tests::kit::Kit;
use tests::matrix::{Matrix, Outcome};
use tests::rest;
use tests::wait::try_wait_for;

use crate::replica::{self, End, Replica};
use crate::stage::{STAGES, Scene, Site};
use crate::tools::{Dirt, Tool};

/// The outcome of one case at one stage, which must be the same at all.
#[derive(Debug, PartialEq)]
struct Account {
    /// How many of the replicas that were not killed have succeeded.
    well: usize,
    history: Vec<String>,
    schema: String,
}

/// A tool at one site.
struct Trial<'a> {
    site: Site<'a>,
    tool: &'a Tool,
    kit: &'a Kit,
    title: String,
}

/// Runs the tool at every selected stage and adds its lines to the matrix.
pub(crate) fn run(scene: &Scene, tool: &Tool, kit: &Kit, choice: &Choice, matrix: &mut Matrix) {
    for case in choice.wanted_cases() {
        let mut outcomes = Vec::new();
        let mut model = None;
        for stage in STAGES.iter().filter(|stage| choice.wants_stage(stage.name)) {
            let title = format!("{} {case} {}", tool.program.name, stage.name);
            let mut trial = Trial { site: scene.site(stage, &choice.settings), tool, kit, title };
            let outcome = match (trial.play(case), &model) {
                (Err(words), _) => Outcome::Failed(words),
                (Ok(account), Some(model)) if account != *model => Outcome::Failed(account.unlike(model)),
                (Ok(account), _) => {
                    model.get_or_insert(account);
                    Outcome::Passed
                }
            };
            outcomes.push((stage.name, outcome));
        }
        matrix.add(tool.program.name, case, &outcomes);
    }
}

impl Account {
    /// Returns what differs from the direct outcome.
    fn unlike(&self, direct: &Self) -> String {
        let well = format!("{} replicas ended well, directly {}", self.well, direct.well);
        let history = format!("the history is {:?}, directly {:?}", self.history, direct.history);
        let pairs = self.schema.lines().zip(direct.schema.lines());
        let lines = pairs.filter(|(here, there)| here != there).take(1);
        let schema = lines.map(|(here, there)| format!("the schema says {here:?}, directly {there:?}"));
        [well, history].into_iter().chain(schema).collect::<Vec<_>>().join("; ")
    }
}

impl Trial<'_> {
    fn play(&mut self, case: &str) -> Result<Account, String> {
        if self.tool.is_prepared {
            self.all_well(self.start(&["preparer"], "prepare")?)?;
        }
        let replicas = self.start(&REPLICAS, "migrate")?;
        let well = match case {
            KILLED => self.kill_one(replicas)?,
            _ => {
                let (well, words) = self.ends(replicas)?;
                (well == REPLICAS.len())
                    .then_some(well)
                    .ok_or_else(|| format!("{well} replicas ended well: {words}"))?
            }
        };
        let steps = self.site.ask("select step from steps order by step");
        if steps != ["1", "2", "3", "4"] {
            return Err(format!("the migrations have left the rows {steps:?}"));
        }
        if let Some(pooler) = &mut self.site.pooler {
            for question in ["SHOW LOCKS", "SHOW PINS"] {
                let told = pooler.console(question).rows;
                told.is_empty().then_some(()).ok_or_else(|| format!("{question} still tells {told:?}"))?;
            }
            rest::check(pooler)?;
        }
        Ok(Account { well, history: self.site.ask(self.tool.history), schema: self.site.schema() })
    }

    /// Kills the replica that is at work, and repairs what it leaves behind where the tool cannot do that itself. Returns
    /// how many of the others have succeeded, before and after.
    fn kill_one(&self, mut replicas: Vec<Replica>) -> Result<usize, String> {
        let name = match self.victim(&replicas) {
            Ok(name) => name,
            Err(reason) => return Err(format!("{reason}; {}", self.ends(replicas)?.1)),
        };
        let at = replicas.iter().position(|replica| replica.name == name);
        let victim = replicas.remove(at.ok_or_else(|| format!("{name} is at work, who is none of ours"))?);
        let killed = Instant::now();
        victim.kill();
        let mut left = Vec::new();
        let free = try_wait_for(LOCK_MAX, || {
            left = self.site.locks();
            left.retain(|lock| lock.starts_with(&format!("{name}|")));
            (left.is_empty() && !self.site.at_work().contains(&name)).then_some(())
        });
        free.ok_or_else(|| {
            format!("{LOCK_MAX:?} after {name} was killed there is its lock, or its work goes on: {left:?}")
        })?;
        println!("  {}: free {} ms after the kill", self.title, killed.elapsed().as_millis());
        let _ = victim.end();
        match self.tool.dirt {
            Dirt::None => self.all_well(replicas),
            Dirt::OthersWait { .. } => {
                self.mend()?;
                self.all_well(replicas)
            }
            Dirt::OthersFail { .. } => {
                let (well, words) = self.ends(replicas)?;
                (well == 0)
                    .then_some(())
                    .ok_or_else(|| format!("{well} ended well beside what was killed: {words}"))?;
                self.mend()?;
                self.all_well(self.start(&["replica6"], "migrate")?)
            }
        }
    }

    /// Returns the replica in the middle of the third step, when all others are connected, or have had a second to connect.
    fn victim(&self, replicas: &[Replica]) -> Result<String, String> {
        let mut at_work = Vec::new();
        let looked = try_wait_for(WORK_MAX, || {
            at_work = self.site.at_work();
            (!at_work.is_empty() || replicas.iter().all(Replica::has_ended)).then_some(())
        });
        looked.filter(|()| !at_work.is_empty()).ok_or("nobody has come to the third step")?;
        let _ = try_wait_for(ARRIVE_MAX, || (self.site.arrived() == REPLICAS.len()).then_some(()));
        at_work = self.site.at_work();
        match (at_work.pop(), at_work.is_empty()) {
            (Some(name), true) => Ok(name),
            (one, _) => Err(format!("at the third step are {one:?} and {at_work:?}")),
        }
    }

    /// Does what an operator has to do by hand. That there is something to repair is part of the expectation.
    fn mend(&self) -> Result<(), String> {
        if let Some(sign) = self.tool.dirt.sign() {
            let found = self.site.ask(sign);
            (found == ["t"]).then_some(()).ok_or_else(|| format!("{sign}: {found:?}, nothing to mend"))?;
        }
        self.all_well(self.start(&["mender"], "mend")?).map(|_| ())
    }

    fn start(&self, names: &[&str], verb: &str) -> Result<Vec<Replica>, String> {
        replica::start(&self.site, self.tool, self.kit, names, verb)
    }

    fn all_well(&self, replicas: Vec<Replica>) -> Result<usize, String> {
        let count = replicas.len();
        let (well, words) = self.ends(replicas)?;
        (well == count).then_some(well).ok_or_else(|| format!("{well} of {count} ended well: {words}"))
    }

    /// Waits for all of them, and then for the end of all locks. Returns how many have succeeded, and the output of one that
    /// has failed.
    fn ends(&self, replicas: Vec<Replica>) -> Result<(usize, String), String> {
        let ends: Vec<End> = replicas.into_iter().map(Replica::end).collect();
        let last = ends.iter().map(|end| end.at).max().unwrap_or_else(Instant::now);
        let mut left = Vec::new();
        let free = try_wait_for(LOCK_MAX.saturating_sub(last.elapsed()), || {
            left = self.site.locks();
            left.is_empty().then_some(())
        });
        let (well, ill): (Vec<_>, Vec<_>) = ends.iter().partition(|end| end.is_well());
        // The output of one is enough: the others say the same.
        let words = ill.first().map_or(String::new(), |end| format!("{:?}: {}", end.status, end.words));
        free.ok_or_else(|| format!("{LOCK_MAX:?} after the last has ended there are locks: {left:?}\n  {words}"))?;
        Ok((well.len(), words))
    }
}

/// All start at once and end by themselves.
const RACE: &str = "race";
/// All start at once, and the one at work is killed.
const KILLED: &str = "killed";

/// In the order in which they are run.
pub(crate) const CASES: [&str; 2] = [RACE, KILLED];

const REPLICAS: [&str; 5] = ["replica1", "replica2", "replica3", "replica4", "replica5"];

/// How long an advisory lock may outlive its replica.
const LOCK_MAX: Duration = Duration::from_secs(1);
/// The time for the others to connect, while one is at work for two seconds.
const ARRIVE_MAX: Duration = Duration::from_secs(1);
const WORK_MAX: Duration = Duration::from_secs(60);
