//! The outcomes of every program and case at every stage, the direct one first, and their output.
//!
//! Always true: a case is good if no stage has failed it and some program can do it; what passes directly and fails through
//! the pooler is a difference.
//! Not here: how outcomes come about.

/// The outcome of one case at one stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did what it should.
    Passed,
    /// It failed, with the program's output.
    Failed(String),
    /// The program cannot do this, or it makes no sense here; with the reason.
    Impossible(String),
    /// It has met a documented limit of the pooler, with a description.
    Limited(String),
}

/// All outcomes.
#[derive(Debug)]
pub struct Matrix {
    /// What the programs are called, in the plural.
    title: &'static str,
    passed: usize,
    failures: Vec<String>,
    skipped: Vec<String>,
    limits: Vec<String>,
}

impl Matrix {
    /// An empty matrix.
    pub fn of(title: &'static str) -> Self {
        Self { title, passed: 0, failures: Vec::new(), skipped: Vec::new(), limits: Vec::new() }
    }

    /// A program is not available here.
    pub fn skip(&mut self, program: &str, reason: &str) {
        println!("{program}: skipped: {reason}");
        self.skipped.push(format!("{program}: {reason}"));
    }

    /// Adds the outcomes of a case, the direct one first, and prints them on one line.
    pub fn add(&mut self, program: &str, case: &str, outcomes: &[(&str, Outcome)]) {
        let cells: Vec<String> = outcomes.iter().map(|(stage, outcome)| format!("{stage} {}", word(outcome))).collect();
        println!("{program:<26} {case:<21} {}", cells.join("  "));
        let is_well_directly = outcomes.first().is_some_and(|(_, outcome)| *outcome == Outcome::Passed);
        for (stage, outcome) in outcomes {
            let title = format!("{program} {case} {stage}");
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
        // One reason is enough: it is nearly always that of the program.
        if let Some((stage, Outcome::Impossible(words))) = outcomes.iter().find(|(_, o)| word(o) == "-") {
            println!("{:>26} {stage}: {words}", "");
        }
    }

    /// Something went wrong outside of the cases.
    pub fn fail(&mut self, words: String) {
        println!("{words}");
        self.failures.push(words);
    }

    /// Prints the sums. Returns whether everything is good.
    ///
    /// # Errors
    /// What is not good.
    pub fn verdict(&self, strict: bool) -> Result<(), String> {
        println!();
        self.limits.iter().for_each(|words| println!("limit: {words}"));
        self.skipped.iter().for_each(|words| println!("skipped: {words}"));
        self.failures.iter().for_each(|words| println!("failed: {words}"));
        println!(
            "{}: {} passed, {} failed, {} at a known limit, {} programs skipped",
            self.title,
            self.passed,
            self.failures.len(),
            self.limits.len(),
            self.skipped.len()
        );
        match (self.failures.is_empty(), strict && !self.skipped.is_empty()) {
            (true, false) => Ok(()),
            (false, _) => Err(format!("{}: failed", self.title)),
            (true, true) => Err(format!("{}: some were skipped", self.title)),
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
