//! What an application knows of the statements to which it has given names.
//!
//! Always true: what hangs on an answer that it has not got is known to hang.
//! Not here: what it says with them (`named`).

use wire::backend::TxStatus;

/// What an application knows of its names.
#[derive(Clone, Default, Debug)]
pub(crate) struct Named {
    pub(super) names: [Name; NAMES],
    /// The TimeZone when everything was answered. `None` once there may have been another one since: what was read under that
    /// may be used later.
    pub(super) zone: Option<String>,
    /// All were dropped since.
    pub(super) is_dropped: bool,
    /// A COPY has failed, and nobody can tell what answers what, in so many transactions or requests outside of one: its own, and
    /// the next, which may be there before the last Sync of the COPY has been answered.
    pub(super) lost: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Name {
    pub(super) means: Means,
    /// What it means hangs on what is not answered.
    pub(super) hangs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Means {
    #[default]
    Nothing,
    /// So many rows.
    Rows(u32),
    /// Something or nothing.
    Unsure,
}

impl Named {
    /// Everything is answered.
    pub(super) fn settle(&mut self, tx: TxStatus, zone: &str) {
        for name in &mut self.names {
            name.hangs = false;
        }
        self.zone = Some(zone.to_owned());
        self.is_dropped = false;
        self.lost = self.lost.saturating_sub(u32::from(tx == TxStatus::Idle));
    }

    /// From here on there may be another TimeZone than the one that the pooler knows of, even if it comes back.
    pub(super) fn waver(&mut self) {
        self.zone = None;
    }

    /// A request was cut off.
    pub(super) fn doubt(&mut self) {
        for name in &mut self.names {
            name.means = Means::Unsure;
        }
    }

    /// Whether nobody can tell yet which answer is whose.
    pub(super) fn is_lost(&self) -> bool {
        self.lost > 0
    }

    /// A COPY has failed with Syncs on their way.
    pub(super) fn lose(&mut self) {
        self.lost = 2;
    }
}

/// Names of an application.
pub(super) const NAMES: usize = 4;
