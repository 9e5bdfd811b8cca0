//! Log lines about something that may happen very often.
//!
//! Always true: one line at most in each period; it has the number of what has happened since the line before it.
//! Not here: the lines.

use std::time::Duration;

use base::Time;

/// What is logged once in each period at most.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    told_at: Option<Time>,
    untold: u64,
}

impl Repeated {
    /// It happens. Returns how often it has happened since the last line, if a line is due.
    pub(crate) fn happens(&mut self, now: Time, every: Duration) -> Option<u64> {
        self.untold += 1;
        if self.told_at.is_some_and(|at| now.since(at) < every) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_has_happened_since_the_one_before_it() {
        let mut repeated = Repeated::default();
        let at = |secs| Time::from_secs(secs);
        let every = Duration::from_secs(60);
        assert_eq!(repeated.happens(at(0), every), Some(1));
        assert_eq!(repeated.happens(at(1), every), None);
        assert_eq!(repeated.happens(at(59), every), None);
        assert_eq!(repeated.happens(at(60), every), Some(3));
        assert_eq!(repeated.happens(at(500), every), Some(1));
    }
}
