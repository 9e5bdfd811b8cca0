//! Compares what `route` reads in SQL with PostgreSQL's own parser, on PostgreSQL's regression tests and on random changes
//! of them.
//!
//! Always true: a text that the parser refuses proves nothing and is only counted; a wrong reading is shown with its text.
//! Not here: what the parse tree requires (`demand`), how texts are changed (`mutate`).

mod cost;
mod demand;
mod mutate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use lexopt::Arg;
use rayon::prelude::*;
use route::{Cache, Class, Condenser, Dialect, Knowledge};

struct Options {
    sql: PathBuf,
    mutations: u64,
    seed: u64,
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--cost") {
        cost::tell();
        return ExitCode::SUCCESS;
    }
    match options().and_then(|options| run(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut arguments = lexopt::Parser::from_env();
    let mut options = Options { sql: PathBuf::new(), mutations: 200_000, seed: 1 };
    let wrong = |error: lexopt::Error| error.to_string();
    while let Some(argument) = arguments.next().map_err(wrong)? {
        let number = |arguments: &mut lexopt::Parser| -> Result<u64, String> {
            let value = arguments.value().map_err(wrong)?;
            value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| format!("{} is no number", value.display()))
        };
        match argument {
            Arg::Long("mutations") => options.mutations = number(&mut arguments)?,
            Arg::Long("seed") => options.seed = number(&mut arguments)?,
            Arg::Value(folder) => options.sql = folder.into(),
            other => return Err(format!("{}\n\n{USAGE}", other.unexpected())),
        }
    }
    if options.sql.as_os_str().is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
}

/// Returns how many texts `route` reads wrongly.
fn run(options: &Options) -> Result<u64, String> {
    let statements = statements(&options.sql)?;
    let tally = Tally::default();
    statements.par_iter().for_each(|text| tally.try_out(text));
    println!("{} statements of {}: {}", statements.len(), options.sql.display(), tally.report());
    let mutated = Tally::default();
    (0..options.mutations).into_par_iter().for_each(|number| {
        let text = mutate::text(&statements, options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number));
        mutated.try_out(&text);
    });
    println!("{} texts made of them: {}", options.mutations, mutated.report());
    Ok(tally.wrong.into_inner() + mutated.wrong.into_inner())
}

#[derive(Default)]
struct Tally {
    parsed: AtomicU64,
    harmless: AtomicU64,
    wrong: AtomicU64,
}

impl Tally {
    fn try_out(&self, text: &str) {
        let Ok(parsed) = pg_query::parse(text) else { return };
        let Ok(tree) = serde_json::to_value(&parsed.protobuf) else { return };
        self.parsed.fetch_add(1, Ordering::Relaxed);
        let class = Cache::default().class(text.as_bytes(), Dialect::default(), 0, Some(&Knowledge::default()));
        self.harmless.fetch_add(u64::from(class.is_harmless()), Ordering::Relaxed);
        // The same by what is left of a long text, which is believed only if it is harmless.
        let classes = [("", Some(class)), (" by what is left", short_class(text))];
        for (by, class) in classes.into_iter().filter_map(|(by, class)| Some((by, class?))) {
            if let Err(why) = demand::check(&tree, &class)
                && self.wrong.fetch_add(1, Ordering::Relaxed) < SHOWN_MAX
            {
                println!("WRONG{by}: {why}\n    {}\n    {class:?}", text.escape_debug());
            }
        }
    }

    fn report(&self) -> String {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        format!("{} parsed, {} of them harmless, {} wrong", of(&self.parsed), of(&self.harmless), of(&self.wrong))
    }
}

/// The class of what is left of a text that arrives in pieces, if it is harmless.
fn short_class(text: &str) -> Option<Rc<Class>> {
    let (dialect, size) = (Dialect::default(), 1 + text.len() % 50);
    let mut condenser = Condenser::with_head(dialect, text.len() % 7);
    text.as_bytes().chunks(size).for_each(|piece| condenser.push(piece));
    let left = condenser.end()?;
    let class = Cache::default().class(&left, dialect, 0, Some(&Knowledge::default()));
    class.is_harmless().then_some(class)
}

/// The statements in the files, split where a line ends with a semicolon; commands of psql are left out.
fn statements(folder: &PathBuf) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "sql"));
    files.sort();
    let mut statements = Vec::new();
    for file in files {
        let text = std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let mut statement = String::new();
        for line in String::from_utf8_lossy(&text).lines().filter(|line| !line.starts_with('\\')) {
            statement.push_str(line);
            statement.push('\n');
            // A dollar-quoted body contains semicolons: the statement continues until the parser accepts it, up to a limit.
            if line.trim_end().ends_with(';') && (pg_query::parse(&statement).is_ok() || statement.len() > LONG) {
                statements.push(std::mem::take(&mut statement));
            }
        }
    }
    Ok(statements)
}

const USAGE: &str = "usage: oracle FOLDER [--mutations N] [--seed N], or oracle --cost: FOLDER holds .sql files, such as src/test/regress/sql";
/// How many wrong readings are shown.
const SHOWN_MAX: u64 = 20;
/// A longer statement that the parser does not accept is given up.
const LONG: usize = 8_000;
