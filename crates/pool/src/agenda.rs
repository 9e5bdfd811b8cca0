//! When each pool has to be looked at again.
//!
//! Always true: a pool has one alarm at most, and the alarm never rings later than the pool needs. It may ring too early:
//! an alarm is only ever brought forward, because events overtake most deadlines (a waiting client, an idle server) long
//! before they come, and moving the alarm each time would cost more than one useless look.
//! Not here: what has to be done then (`pool`).

use std::collections::BTreeSet;

use base::Time;

use crate::PoolKey;
use crate::planted::rings_by;

/// The alarms of all pools, the earliest first; ties by the key of the pool.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    alarms: BTreeSet<(Time, PoolKey)>,
}

impl Agenda {
    /// Sets the alarm of a pool to this time, unless it rings earlier. `alarm` is the pool's own copy of its alarm.
    pub(crate) fn ring_by(&mut self, time: Time, pool: PoolKey, alarm: &mut Option<Time>) {
        if alarm.is_some_and(|set| rings_by(set, time)) {
            return;
        }
        self.cancel(pool, alarm);
        self.alarms.insert((time, pool));
        *alarm = Some(time);
    }

    /// Removes the alarm of a pool.
    pub(crate) fn cancel(&mut self, pool: PoolKey, alarm: &mut Option<Time>) {
        if let Some(set) = alarm.take() {
            self.alarms.remove(&(set, pool));
        }
    }

    /// Removes and returns the next pool whose alarm is due; the caller clears the pool's own copy of the alarm.
    pub(crate) fn next_due(&mut self, now: Time) -> Option<PoolKey> {
        let (time, pool) = *self.alarms.first()?;
        if time > now {
            return None;
        }
        self.alarms.pop_first();
        Some(pool)
    }

    /// When the first alarm rings.
    pub(crate) fn first(&self) -> Option<Time> {
        self.alarms.first().map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use base::Key;

    use super::*;

    const POOL: PoolKey = Key::first(0);

    #[test]
    fn an_alarm_is_brought_forward_but_never_put_off() {
        let (mut agenda, mut alarm) = (Agenda::default(), None);
        agenda.ring_by(Time(5), POOL, &mut alarm);
        agenda.ring_by(Time(9), POOL, &mut alarm);
        assert_eq!((agenda.first(), alarm), (Some(Time(5)), Some(Time(5))));
        agenda.ring_by(Time(3), POOL, &mut alarm);
        assert_eq!((agenda.first(), agenda.alarms.len()), (Some(Time(3)), 1));
    }

    #[test]
    fn an_alarm_rings_when_its_time_has_come_and_once() {
        let (mut agenda, mut alarm) = (Agenda::default(), None);
        agenda.ring_by(Time(5), POOL, &mut alarm);
        assert_eq!(agenda.next_due(Time(4)), None);
        assert_eq!(agenda.next_due(Time(5)), Some(POOL));
        assert_eq!(agenda.next_due(Time(5)), None);
    }
}
