//! A pooler in front of the trial's cluster: Trunkline, or another one with the same command line and ini file.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::cluster::wait_until_ready;
use super::{Client, ClientError, DATABASE, Kept, ShutdownSignal, Trial, TrialError, USER};

/// A running pooler.
#[derive(Debug)]
pub struct Pooler {
    program: Kept,
    /// Its configuration.
    file: PathBuf,
    port: u16,
    startup: Duration,
}

impl Pooler {
    /// Writes `NAME.ini` and the user list that it names (`users.txt`), and starts `executable` with it.
    ///
    /// Waits until a client can log in through the pooler and run a query. `ini` must make it listen on `port`, and
    /// name the user to switch to if we are root.
    ///
    /// # Errors
    /// The pooler cannot be started, or does not serve; the text contains its own messages.
    pub fn start(trial: &Trial, name: &str, executable: &Path, ini: &str, port: u16) -> Result<Self, TrialError> {
        let path = trial.scratch.write(&trial.system_user, &format!("{name}.ini"), ini)?;
        trial.scratch.write(&trial.system_user, USERS_FILE, &format!("\"{USER}\" \"\"\n"))?;
        let begun = Instant::now();
        let program = trial.start(name, trial.own_command(executable).arg(&path), ShutdownSignal::Quit)?;
        let mut pooler = Self { program, file: path, port, startup: Duration::ZERO };
        let mut client = wait_until_ready(trial, &mut pooler.program, name, port, DATABASE)?;
        client.run("SELECT 1").map_err(|why| TrialError::step(format!("{name} cannot query"), why))?;
        pooler.startup = begun.elapsed();
        Ok(pooler)
    }

    /// Writes the file `configuration`, with its name, and the user list that it may name (`users.txt`), starts `command` with it, and waits until it
    /// takes connections on `port`.
    ///
    /// # Errors
    /// The pooler cannot be started, or does not listen; the text contains its own messages.
    pub fn start_for(
        trial: &Trial,
        name: &str,
        command: &mut Command,
        (file, configuration): (&str, &str),
        users: &str,
        port: u16,
    ) -> Result<Self, TrialError> {
        let path = trial.scratch.write(&trial.system_user, file, configuration)?;
        trial.scratch.write(&trial.system_user, USERS_FILE, users)?;
        let begun = Instant::now();
        let program = trial.start(name, command.arg(&path), ShutdownSignal::Quit)?;
        let mut pooler = Self { program, file: path, port, startup: Duration::ZERO };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = pooler.program.ended() {
                let words = format!("{status}\n  {}", trial.last_words(name));
                return Err(TrialError::step(format!("{name} did not start"), words));
            }
            if begun.elapsed() > LISTEN_PATIENCE {
                return Err(TrialError::step(format!("{name} does not listen on port {port}"), trial.last_words(name)));
            }
            trial.interrupt.wait(Duration::from_millis(5))?;
        }
        pooler.startup = begun.elapsed();
        Ok(pooler)
    }

    /// Gives it another configuration, which it reads when it is told to by SIGHUP. Does not wait for that.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reload(&self, trial: &Trial, configuration: &str) -> Result<(), TrialError> {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        // It is moved to its place, so that the pooler never reads a half.
        let fresh = trial.scratch.write(&trial.system_user, &format!("{name}.new"), configuration)?;
        std::fs::rename(&fresh, &self.file)
            .map_err(|why| TrialError::step(format!("cannot write {}", self.file.display()), why))?;
        self.program.send(Signal::SIGHUP);
        Ok(())
    }

    /// Logs in through the pooler.
    ///
    /// # Errors
    /// As [`Client::log_in`].
    pub fn client(&self, patience: Duration) -> Result<Client, ClientError> {
        Client::log_in(self.port, USER, DATABASE, patience)
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The time from the pooler's start to its first answer to a query.
    #[must_use]
    pub fn startup(&self) -> Duration {
        self.startup
    }

    /// Its process id, for `/proc`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.program.ended().is_some()
    }
}

/// The file of users, in the trial's directory, that a trial's ini file names as its `auth_file`.
const USERS_FILE: &str = "users.txt";

const LISTEN_PATIENCE: Duration = Duration::from_secs(30);
