//! Why a trial ended early.

use std::fmt;

/// Why a demo or a bench could not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialError {
    /// PostgreSQL's programs are missing; the text says how to install them.
    ProgramsMissing(String),
    /// Ctrl-C, or a signal with the same meaning.
    Interrupted,
    /// A step failed.
    Step {
        /// What was tried.
        what: String,
        /// The error.
        why: String,
    },
}

impl TrialError {
    /// A step that failed.
    #[must_use]
    pub fn step(what: String, why: impl fmt::Display) -> Self {
        Self::Step { what, why: why.to_string() }
    }

    /// The exit status for a shell: 130 for an interruption, as shells report it, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::ProgramsMissing(_) | Self::Step { .. } => 1,
        }
    }
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgramsMissing(advice) => f.write_str(advice),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Step { what, why } => write!(f, "{what}: {why}"),
        }
    }
}

impl std::error::Error for TrialError {}
