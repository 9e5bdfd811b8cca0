//! A login that a pool needs: its purpose, and whether it uses the pool's size or its reserve.

use crate::{Need, OpenReason};

/// A login that a pool needs and may begin by its own limits alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Client(Source),
    /// A dedicated server for one client.
    Dedicated(Source),
    Minimum,
    /// In the place of a server that was closed because another host suits better.
    Moved,
}

/// Which limit of the pool a login counts against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Size,
    Reserve,
}

impl Wanted {
    pub(crate) fn reason(self) -> OpenReason {
        match self {
            Self::Client(Source::Size) => OpenReason::Client,
            Self::Client(Source::Reserve) => OpenReason::Reserve,
            Self::Dedicated(_) => OpenReason::Replication,
            Self::Minimum => OpenReason::MinPoolSize,
            Self::Moved => OpenReason::Moved,
        }
    }

    pub(crate) fn need(self) -> Need {
        match self {
            Self::Client(_) | Self::Dedicated(_) => Need::Client,
            Self::Minimum | Self::Moved => Need::Minimum,
        }
    }
}
