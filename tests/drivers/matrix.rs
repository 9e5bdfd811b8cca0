//! What came of every driver and case, and the words about it.
//!
//! Always true: a case that no stage has failed and that somebody could do is well; what passes directly and fails
//! through the pooler is called a difference.
//! Not here: how it came about (`trial`).

/// What came of one case at one stage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// It did what it should.
    Passed,
    /// It did not, with the program's words.
    Failed(String),
    /// The driver cannot do this, or it makes no sense here; why.
    Impossible(String),
    /// It met a limit of the pooler that its documentation tells, with the words for it.
    Limited(String),
}

/// All that came out.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    passed: usize,
    failures: Vec<String>,
    skipped: Vec<String>,
    limits: Vec<String>,
}

impl Matrix {
    /// A driver that cannot be had here.
    pub(crate) fn skip(&mut self, driver: &str, reason: &str) {
        println!("{driver}: skipped: {reason}");
        self.skipped.push(format!("{driver}: {reason}"));
    }

    /// One line: what came of a case at the stages, the direct one first.
    pub(crate) fn add(&mut self, driver: &str, case: &str, outcomes: &[(&str, Outcome)]) {
        let cells: Vec<String> = outcomes.iter().map(|(stage, outcome)| format!("{stage} {}", word(outcome))).collect();
        println!("{driver:<26} {case:<21} {}", cells.join("  "));
        let is_well_directly = outcomes.first().is_some_and(|(_, outcome)| *outcome == Outcome::Passed);
        for (stage, outcome) in outcomes {
            let title = format!("{driver} {case} {stage}");
            match outcome {
                Outcome::Passed => self.passed += 1,
                Outcome::Impossible(words) if is_well_directly => {
                    self.failures.push(format!("{title}: done directly, and given up here: {words}"));
                }
                Outcome::Impossible(_) => {}
                Outcome::Limited(words) => self.limits.push(format!("{title}: {words}")),
                Outcome::Failed(words) if is_well_directly => {
                    self.failures.push(format!("{title}: a difference: {words}"));
                }
                Outcome::Failed(words) => self.failures.push(format!("{title}: {words}")),
            }
        }
        // One reason is enough: it is nearly always that of the driver.
        if let Some((stage, Outcome::Impossible(words))) = outcomes.iter().find(|(_, o)| word(o) == "-") {
            println!("{:>26} {stage}: {words}", "");
        }
    }

    /// Something that went wrong beside the cases.
    pub(crate) fn fail(&mut self, words: String) {
        println!("{words}");
        self.failures.push(words);
    }

    /// The sums, and whether all is well.
    pub(crate) fn verdict(&self, strict: bool) -> Result<(), String> {
        println!();
        self.limits.iter().for_each(|words| println!("limit: {words}"));
        self.skipped.iter().for_each(|words| println!("skipped: {words}"));
        self.failures.iter().for_each(|words| println!("failed: {words}"));
        println!(
            "drivers: {} passed, {} failed, {} at a known limit, {} drivers skipped",
            self.passed,
            self.failures.len(),
            self.limits.len(),
            self.skipped.len()
        );
        match (self.failures.is_empty(), strict && !self.skipped.is_empty()) {
            (true, false) => Ok(()),
            (false, _) => Err("drivers: failed".to_owned()),
            (true, true) => Err("drivers: some were skipped".to_owned()),
        }
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Impossible(_) => "-",
        Outcome::Limited(_) => "limit",
    }
}
