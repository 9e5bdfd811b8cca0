//! The longest time without an acknowledgement, for a path, a writer or a reader.
//!
//! Always true: the time from the start to the first acknowledgement, and from the last one to the end, counts too, so a
//! path that never recovers has a gap. All times count from the start of the run.

use std::time::Duration;

/// A time without an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gap {
    /// The acknowledgement before it, or the start.
    pub(crate) from: Duration,
    /// The acknowledgement after it, or the end.
    pub(crate) to: Duration,
    /// Whether there was none after it.
    pub(crate) is_open: bool,
}

impl Gap {
    /// How long it lasted.
    pub(crate) fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

/// The longest gap so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    last: Duration,
    longest: Gap,
    fault: Option<AfterFault>,
}

/// What followed the fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AfterFault {
    at: Duration,
    /// The first acknowledgement after the fault command was started.
    pub(crate) first: Option<Duration>,
    /// The longest gap that ended after it.
    pub(crate) longest: Gap,
}

impl AfterFault {
    /// The time from the start of the fault command to the end of the longest gap, if that gap has an end.
    pub(crate) fn recovered(&self) -> Option<Duration> {
        (!self.longest.is_open).then(|| self.longest.to.saturating_sub(self.at))
    }
}

impl Gaps {
    /// Something was acknowledged.
    pub(crate) fn ack(&mut self, now: Duration) {
        self.close(Gap { from: self.last, to: now, is_open: false });
        if let Some(fault) = &mut self.fault {
            fault.first.get_or_insert(now.saturating_sub(fault.at));
        }
        self.last = now;
    }

    /// The fault command is started.
    pub(crate) fn fault(&mut self, now: Duration) {
        self.fault = Some(AfterFault { at: now, first: None, longest: Gap::default() });
    }

    /// The run has ended.
    pub(crate) fn end(&mut self, now: Duration) {
        self.close(Gap { from: self.last, to: now, is_open: true });
    }

    /// The longest gap.
    pub(crate) fn longest(&self) -> Gap {
        self.longest
    }

    /// What followed the fault, if there was one.
    pub(crate) fn after_fault(&self) -> Option<AfterFault> {
        self.fault
    }

    fn close(&mut self, gap: Gap) {
        if gap.length() > self.longest.length() {
            self.longest = gap;
        }
        if let Some(fault) = &mut self.fault
            && gap.length() > fault.longest.length()
        {
            fault.longest = gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_longest_gap_is_told_with_its_ends() {
        let mut gaps = Gaps::default();
        [10, 30, 50, 1050, 1070].map(ms).into_iter().for_each(|now| gaps.ack(now));
        gaps.end(ms(1080));
        assert_eq!(gaps.longest(), Gap { from: ms(50), to: ms(1050), is_open: false });
        assert_eq!(gaps.after_fault(), None);
    }

    #[test]
    fn the_first_and_the_last_time_without_an_acknowledgement_count() {
        let mut never = Gaps::default();
        never.end(ms(500));
        assert_eq!(never.longest(), Gap { from: ms(0), to: ms(500), is_open: true });
        let mut late = Gaps::default();
        late.ack(ms(400));
        late.end(ms(500));
        assert_eq!(late.longest(), Gap { from: ms(0), to: ms(400), is_open: false });
    }

    #[test]
    fn the_recovery_is_the_end_of_the_longest_gap_after_the_fault() {
        let mut gaps = Gaps::default();
        [300, 310].map(ms).into_iter().for_each(|now| gaps.ack(now));
        gaps.fault(ms(315));
        // The command needs a moment: a write is still acknowledged before the outage.
        [320, 450, 460].map(ms).into_iter().for_each(|now| gaps.ack(now));
        gaps.end(ms(470));
        let after = gaps.after_fault().expect("a fault");
        assert_eq!((after.first, after.recovered()), (Some(ms(5)), Some(ms(135))));
        assert_eq!(after.longest.length(), ms(130));
        assert_eq!(gaps.longest().length(), ms(300), "the one before the fault was longer");
    }

    #[test]
    fn a_path_that_stays_down_has_not_recovered() {
        let mut gaps = Gaps::default();
        gaps.ack(ms(10));
        gaps.fault(ms(10));
        gaps.end(ms(1000));
        let after = gaps.after_fault().expect("a fault");
        assert_eq!((after.first, after.recovered(), after.longest.is_open), (None, None, true));
    }
}
