//! Why clients lose their database or their server without having done anything.
//!
//! Always true: the MESSAGE is PgBouncer's, which is the same for a console command and for a changed file; the DETAIL
//! tells the cause.
//! Not here: when that happens (`worker::admin`).

/// The cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EndedBy {
    /// `KILL` on the console.
    Kill,
    /// `RECONNECT` on the console.
    Reconnect,
    /// A new configuration is in force.
    Reload,
    /// A client drops, renames, moves or copies the database.
    Claim,
    /// The server was to be replaced for a reason of its own, such as a changed address of its host.
    #[default]
    Renewal,
}

impl EndedBy {
    /// The DETAIL for a client whose database is gone.
    pub(super) fn of_database(self) -> &'static str {
        match self {
            Self::Kill => "An operator has closed all connections to this database (KILL); it is paused until RESUME.",
            _ => "The configuration of the pooler does not have this database any more.",
        }
    }

    /// The DETAIL for a client whose server is gone.
    pub(super) fn of_server(self) -> &'static str {
        match self {
            Self::Kill | Self::Reconnect => {
                "An operator has had the server connections of this database replaced (RECONNECT)."
            }
            Self::Reload => "A reload has changed how the pooler serves this database.",
            Self::Claim => "A client drops, renames, moves or copies the database.",
            Self::Renewal => "The server connection of this session was to be replaced.",
        }
    }
}
