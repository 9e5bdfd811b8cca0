//! The machine and the versions of a measurement.

use std::fs;
use std::path::Path;
use std::process::Command;

use ops::trial::Programs;

use super::contestant::Executables;
use crate::house::House;

/// The machine, the versions and the date.
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) processors: usize,
    pub(super) memory_gib: f64,
    pub(super) kernel: String,
    pub(super) trunkline: String,
    pub(super) pgbouncer: String,
    pub(super) postgresql: String,
    pub(super) date: String,
}

impl Machine {
    pub(super) fn look(house: &House, executables: &Executables) -> Self {
        let unknown = || "unknown".to_owned();
        let root = house.root();
        let commit = first_line(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root));
        let version = |program: &Path| first_line(Command::new(program).arg("--version")).unwrap_or_else(unknown);
        Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory_gib: field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)).unwrap_or(0.0) / 1_048_576.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| unknown(), |s| s.trim().into()),
            // `--version` prints PgBouncer's version for the sake of scripts; ours is the package's.
            trunkline: format!("{} ({})", env!("CARGO_PKG_VERSION"), commit.unwrap_or_else(unknown)),
            pgbouncer: version(&executables.pgbouncer).trim_start_matches("PgBouncer ").to_owned(),
            postgresql: Programs::find().map_or_else(|_| unknown(), |programs| programs.version),
            date: first_line(Command::new("date").args(["-u", "+%F"])).unwrap_or_else(unknown),
        }
    }

    /// The lines of the report: label and value.
    pub(super) fn lines(&self) -> [(&'static str, String); 7] {
        [
            ("processor", format!("{}, {} of it", self.processor, self.processors)),
            ("memory", format!("{:.0} GiB", self.memory_gib)),
            ("kernel", format!("Linux {}", self.kernel)),
            ("Trunkline", self.trunkline.clone()),
            ("PgBouncer", self.pgbouncer.clone()),
            ("PostgreSQL", self.postgresql.clone()),
            ("date", self.date.clone()),
        ]
    }
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

fn field(path: &str, name: &str) -> Option<String> {
    field_in(&fs::read_to_string(path).ok()?, name)
}

fn field_in(text: &str, name: &str) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn kib(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t: 7\nmodel name\t: A Processor\nMemTotal:  1048576 kB\n";
        assert_eq!(field_in(text, "model name").as_deref(), Some("A Processor"));
        assert_eq!(field_in(text, "MemTotal").as_deref().and_then(kib), Some(1_048_576.0));
        assert_eq!(field_in(text, "name"), None);
    }
}
