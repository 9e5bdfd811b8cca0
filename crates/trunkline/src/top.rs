//! `trunkline top` and `trunkline switchover`: finds out from a configuration file where the pooler listens.
//!
//! Always true: the file is read as the pooler reads it, and all mistakes are reported.
//! Not here: the display (crate `top`).

use std::process::ExitCode;

use config::{Overrides, Settings};
use control::{FileReader, Source};
use top::{Listening, SwitchoverOptions, TopOptions};

/// Shows a console.
pub(crate) fn top(options: &TopOptions) -> ExitCode {
    if options.wants_help() {
        print!("{}", top::USAGE);
        return ExitCode::SUCCESS;
    }
    let listening = options.config_file().map(listening).transpose();
    match listening.and_then(|listening| top::run(options, listening.as_ref())) {
        Ok(None) => ExitCode::SUCCESS,
        // As a shell reports a program that was ended by a signal.
        Ok(Some(signal)) => ExitCode::from(128u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
        Err(text) => {
            eprintln!("trunkline top: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Switches a cluster over.
pub(crate) fn switchover(options: &SwitchoverOptions) -> ExitCode {
    if options.wants_help() {
        print!("{}", top::SWITCHOVER_USAGE);
        return ExitCode::SUCCESS;
    }
    let listening = options.config_file().map(listening).transpose();
    match listening.and_then(|listening| top::switch_over(options, listening.as_ref())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("trunkline switchover: {text}");
            ExitCode::FAILURE
        }
    }
}

fn listening(path: &str) -> Result<Listening, String> {
    let loaded = Source::new(path.to_owned(), Overrides::default(), FileReader::from_disk()).read();
    let loaded = loaded.map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    Ok(of(&loaded.settings))
}

/// An abstract socket (`@name`) has no path to connect to, so TCP is used then.
fn of(settings: &Settings) -> Listening {
    let socket_dir = settings.unix_socket_dir.as_deref().filter(|directory| directory.starts_with('/'));
    let address = settings.listen_addr.first().map(|address| &**address);
    let address = address.map(|address| match address {
        "*" | "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        address => address,
    });
    Listening {
        socket_dir: socket_dir.map(str::to_owned),
        address: address.map(str::to_owned),
        port: settings.listen_port,
    }
}
