//! Plays every script of `tests/talk` around the real binary, once with each kernel interface.
//!
//! Not here: the language (`talk/README.md`, `src/script.rs`).

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tests::place::Place;
use tests::runner::{self, Alone, Options, Test};
use tests::script::Script;

fn main() -> ExitCode {
    let options = Options::from_arguments();
    let scripts = scripts();
    let place = match Place::find() {
        Ok(place) => Arc::new(place),
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let kernels: &[&str] = if place.is_trunkline() { &["io_uring", "epoll"] } else { &["pgbouncer"] };
    let mut tests = Vec::new();
    for (name, text) in &scripts {
        for kernel in kernels {
            let script = Script::read(text);
            let more = if place.is_trunkline() { vec![format!("io_backend = {kernel}")] } else { Vec::new() };
            let body = Box::new({
                let place = &place;
                move || script.play(place, &more)
            });
            tests.push(Test { name: format!("{name} ({kernel})"), alone: Alone::No, body });
        }
    }
    if options.is_list() {
        runner::list(&tests);
        return ExitCode::SUCCESS;
    }
    match runner::run(tests, &options) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn scripts() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("talk");
    let mut scripts: Vec<_> = fs::read_dir(&directory)
        .expect("tests/talk can be read")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "talk"))
        .map(|entry| {
            let name = entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).expect("a script can be read"))
        })
        .collect();
    scripts.sort();
    scripts
}
