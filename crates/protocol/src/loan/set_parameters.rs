//! Which of the parameters that PostgreSQL reports have been set in a server's session.
//!
//! Always true: a parameter is listed only if the session has set it since its login or its last reset (`pg_settings` has
//! `session` as its source).
//! Not here: the values (`vars`).

/// The parameters that a session has set, by their index in [`Tracked`](crate::vars::Tracked). Those from the 65th on are
/// not listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetParameters(u64);

impl SetParameters {
    /// Lists the parameter at this index, or no longer.
    pub fn list(&mut self, place: usize, is_set: bool) {
        let bit = bit(place);
        self.0 = if is_set { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether the session has set the parameter at this index.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }
}

fn bit(place: usize) -> u64 {
    u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_listed_until_it_is_reset() {
        let mut set = SetParameters::default();
        for place in [0, 4, 63, 64, usize::MAX] {
            set.list(place, true);
            assert_eq!(set.has(place), place < 64, "{place}");
            assert!(!set.has(5));
        }
        set.list(4, false);
        assert_eq!([0, 4, 63].map(|place| set.has(place)), [true, false, true]);
    }
}
