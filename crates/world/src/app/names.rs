//! What an application knows of its named prepared statements.
//!
//! Always true: a name whose meaning depends on an outstanding answer is marked so.
//! Not here: the requests that use the names (`named`).

use wire::backend::TxStatus;

/// The names of an application.
#[derive(Clone, Default, Debug)]
pub(crate) struct Named {
    pub(super) names: [Name; NAMES],
    /// The TimeZone when everything was answered. `None` once another one may have been set since: a statement parsed
    /// under that one may be used later.
    pub(super) zone: Option<String>,
    /// All statements were dropped since everything was answered.
    pub(super) is_dropped: bool,
    /// Number of transactions (or requests outside of one) during which answers cannot be matched, because a COPY has
    /// failed: its own and the next, which may arrive before the last `Sync` of the COPY is answered.
    pub(super) lost: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Name {
    pub(super) means: Means,
    /// What the name means depends on an outstanding answer.
    pub(super) hangs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Means {
    #[default]
    Nothing,
    /// A statement that returns so many rows.
    Rows(u32),
    /// A statement or nothing.
    Unsure,
}

impl Named {
    /// Every request is answered.
    pub(super) fn settle(&mut self, tx: TxStatus, zone: &str) {
        for name in &mut self.names {
            name.hangs = false;
        }
        self.zone = Some(zone.to_owned());
        self.is_dropped = false;
        self.lost = self.lost.saturating_sub(u32::from(tx == TxStatus::Idle));
    }

    /// From here on the TimeZone may differ from the one that the pooler knows, even if it is set back.
    pub(super) fn waver(&mut self) {
        self.zone = None;
    }

    /// A request was aborted.
    pub(super) fn doubt(&mut self) {
        for name in &mut self.names {
            name.means = Means::Unsure;
        }
    }

    /// Returns whether answers cannot be matched to messages yet.
    pub(super) fn is_lost(&self) -> bool {
        self.lost > 0
    }

    /// A COPY has failed while `Sync` messages were under way.
    pub(super) fn lose(&mut self) {
        self.lost = 2;
    }
}

/// Number of names of an application.
pub(super) const NAMES: usize = 4;
