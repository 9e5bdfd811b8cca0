//! What a pool remembers of a time in which its clients wait for long.
//!
//! Not here: who looks (`admin::spells`), when such a time begins and ends (crate `pool`).

use std::time::Duration;

use base::Time;
use pool::Spell;

/// Of one pool.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) spell: Option<Spell>,
    /// Who had its servers when most waited.
    pub(crate) holders: Box<str>,
}

impl Watched {
    /// A client that has waited for so long has a server now, or is refused one.
    #[cold]
    pub(crate) fn has_waited(&mut self, now: Time, enough: Option<Duration>, waited: Duration) {
        if let (Some(spell), Some(enough)) = (&mut self.spell, enough) {
            spell.has_waited(now, enough, waited);
        }
    }
}

/// Shorter waits are noticed only by who looks.
pub(crate) const WAITED_LONG: Duration = Duration::from_millis(100);
