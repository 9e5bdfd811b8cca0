//! By what clients lose what they had through no doing of their own.
//!
//! Always true: MESSAGE stays PgBouncer's, which says the same of an order and of a changed file; what happened stands in the DETAIL.
//! Not here: when that is (`worker::admin`).

/// What has ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ender {
    /// `KILL` on the console.
    Kill,
    /// `RECONNECT` on the console.
    Reconnect,
    /// Another configuration is in force.
    Reload,
    /// A client drops, renames, moves or copies the database.
    Claim,
    /// Its server was to be replaced for a reason of its own, such as another address of its host.
    #[default]
    Renewal,
}

impl Ender {
    /// To a client whose database is gone.
    pub(super) fn of_database(self) -> &'static str {
        match self {
            Self::Kill => "An operator has closed all connections to this database (KILL); it is paused until RESUME.",
            _ => "The configuration of the pooler does not have this database any more.",
        }
    }

    /// To a client whose server is.
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
