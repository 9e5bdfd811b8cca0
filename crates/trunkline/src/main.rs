//! The command `trunkline`.
//!
//! Always true: any failure before the service is up ends in a message and exit status 1.
//! Not here: the rest. Begin with `args`, then `boot`.

mod advise;
mod args;
mod boot;
mod capacity;
mod check;
mod daemon;
mod doctor;
mod hatest;
mod identity;
mod last_words;
mod lint;
mod listening_sockets;
mod memory;
mod opening;
mod pidfile;
mod record;
mod replay;
mod simulate;
mod takeover;
mod threads;
mod top;

use std::process::ExitCode;

use args::Call;

fn main() -> ExitCode {
    let call = match args::parse(std::env::args_os()) {
        Ok(call) => call,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    match call {
        Call::Help => {
            print!("{}", args::USAGE);
            ExitCode::SUCCESS
        }
        Call::Version => {
            print!("{}", args::version());
            ExitCode::SUCCESS
        }
        Call::Demo(options) => demo(&options),
        Call::Top(options) => top::top(&options),
        Call::Hatest(args) => hatest::hatest(args),
        Call::Simulate(args) => simulate::simulate(args),
        Call::Advise(args) => advise::advise(args),
        Call::Replay(args) => replay::replay(args),
        Call::Record(args) => record::record(args),
        Call::Capacity(args) => capacity::capacity(args),
        Call::Switchover(options) => top::switchover(&options),
        Call::Lint(args) => lint::lint(args),
        Call::Doctor(args) => doctor::doctor(args),
        Call::Check { config, is_linted } => check::check(&config, is_linted),
        Call::Serve(serve) => boot::serve(&serve),
    }
}

fn demo(options: &ops::demo::DemoOptions) -> ExitCode {
    let own_executable = std::env::current_exe().map_err(|error| error.to_string());
    match own_executable.and_then(|path| ops::demo::run(options, &path).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
