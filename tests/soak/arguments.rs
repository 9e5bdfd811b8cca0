//! The command line of `cargo xtask soak`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::soak::options::Options;

/// Reads the command line.
pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { time: Duration::from_secs(60), seed: 0, kernel: None, clients: 200 };
    let mut seed = None;
    while let Some(name) = arguments.next() {
        if name == "--help" {
            return Err(USAGE.to_string());
        }
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{USAGE}"))?;
        let number = || value.parse::<f64>().ok().filter(|n| *n > 0.0).ok_or(format!("{name}: what is {value:?}?"));
        match name.as_str() {
            "--minutes" => options.time = Duration::from_secs_f64(number()? * 60.0),
            "--seconds" => options.time = Duration::from_secs_f64(number()?),
            "--seed" => seed = Some(value.parse().map_err(|_| format!("--seed: what is {value:?}?"))?),
            "--clients" => options.clients = number()? as usize,
            "--io" => options.kernel = Some(value),
            _ => return Err(format!("what is {name}?\n\n{USAGE}")),
        }
    }
    options.seed = seed.unwrap_or_else(any_seed);
    Ok(options)
}

fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64 % 1_000_000)
}

const USAGE: &str = "\
usage: cargo xtask soak [--minutes M] [--seed S] [--io io_uring|epoll] [--clients N]

  --minutes M   how long the chaos lasts (1); --seconds is understood too
  --seed S      draw the same plan again (any)
  --io NAME     the pooler's io_backend (auto)
  --clients N   how many clients (200)";
