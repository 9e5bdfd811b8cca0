//! A login that a pool wishes for: for whom, and what it takes its place of.

use crate::{Need, OpenReason};

/// A login that a pool wishes for and may begin as far as it alone is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Client(Source),
    /// For one client alone.
    Dedicated(Source),
    Minimum,
}

/// What a login takes its place of.
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
        }
    }

    pub(crate) fn need(self) -> Need {
        match self {
            Self::Client(_) | Self::Dedicated(_) => Need::Client,
            Self::Minimum => Need::Minimum,
        }
    }
}
