//! Divides the time of a transaction into phases.
//!
//! Always true: from its beginning to its end a transaction is in exactly one phase, so that the phases add up to the whole.

use base::Time;

/// A phase of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Phase {
    /// The client waits for a server.
    Waiting,
    /// The client's settings and prepared statements are applied to the server, or the state probe runs.
    Settings,
    /// The server has a request and has not begun to answer.
    FirstByte,
    /// The server sends its answer.
    Streaming,
    /// The client does not read its answers, so the server is not read either.
    Blocked,
    /// The server waits for the next request of the client in its transaction, or for the data of a COPY.
    Thinking,
}

/// All phases with their names in tables and metrics.
pub const PHASES: [(Phase, &str); 6] = [
    (Phase::Waiting, "waiting"),
    (Phase::Settings, "settings"),
    (Phase::FirstByte, "first_byte"),
    (Phase::Streaming, "streaming"),
    (Phase::Blocked, "client_blocked"),
    (Phase::Thinking, "client_thinking"),
];

/// The time of the present transaction so far, by phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Division {
    present: Option<(Phase, Time)>,
    spent: Spent,
}

/// The time of a transaction by [`Phase`], in microseconds; a phase of more than 71 minutes counts as 71 minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent([u32; PHASES.len()]);

impl Division {
    /// Enters a phase; the first phase begins the transaction.
    #[inline]
    pub fn enter(&mut self, now: Time, phase: Phase) {
        if let Some((before, since)) = self.present.replace((phase, now)) {
            self.spent.add(before, micros(now, since));
        }
    }

    /// Enters a phase if the transaction is in the phase `from`.
    #[inline]
    pub fn go_on(&mut self, now: Time, from: Phase, phase: Phase) {
        if self.present.is_some_and(|(present, _)| present == from) {
            self.enter(now, phase);
        }
    }

    /// The present phase, and since when.
    #[must_use]
    pub fn present(&self) -> Option<(Phase, Time)> {
        self.present
    }

    /// The time by phase until now.
    #[must_use]
    pub fn so_far(&self, now: Time) -> Spent {
        let mut spent = self.spent;
        if let Some((phase, since)) = self.present {
            spent.add(phase, micros(now, since));
        }
        spent
    }

    /// Ends the transaction, and returns its time by phase; `None` if none had begun.
    #[inline]
    pub fn end(&mut self, now: Time) -> Option<Spent> {
        let (phase, since) = self.present.take()?;
        self.spent.add(phase, micros(now, since));
        Some(std::mem::take(&mut self.spent))
    }
}

fn micros(now: Time, since: Time) -> u32 {
    u32::try_from(now.0.saturating_sub(since.0)).unwrap_or(u32::MAX)
}

impl Spent {
    /// The time in one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> u32 {
        self.0[phase as usize]
    }

    /// The time in all phases.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|micros| u64::from(*micros)).sum()
    }

    /// The time since an earlier value `before`, by phase.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut spent = *self;
        spent.0.iter_mut().zip(before.0).for_each(|(micros, before)| *micros = micros.saturating_sub(before));
        spent
    }

    #[inline]
    fn add(&mut self, phase: Phase, micros: u32) {
        let spent = &mut self.0[phase as usize];
        *spent = spent.saturating_add(micros);
    }
}

/// The time of many transactions by phase, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// The number of transactions.
    pub count: u64,
    micros: [u64; PHASES.len()],
}

impl Sums {
    /// Adds a transaction.
    #[inline]
    pub fn add(&mut self, spent: &Spent) {
        self.count += 1;
        self.micros.iter_mut().zip(spent.0).for_each(|(sum, micros)| *sum += u64::from(micros));
    }

    /// Adds a transaction that stands for several.
    pub fn add_times(&mut self, spent: &Spent, times: u64) {
        self.count += times;
        self.micros.iter_mut().zip(spent.0).for_each(|(sum, micros)| *sum += times * u64::from(micros));
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.micros.iter_mut().zip(other.micros).for_each(|(sum, micros)| *sum += micros);
    }

    /// The time in one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> u64 {
        self.micros[phase as usize]
    }

    /// The time in all phases.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.micros.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_sum_to_the_whole() {
        let mut division = Division::default();
        let steps = [
            (100, Phase::Waiting),
            (107, Phase::Settings),
            (110, Phase::FirstByte),
            (160, Phase::Streaming),
            (170, Phase::Blocked),
            (270, Phase::Streaming),
            (275, Phase::Thinking),
            (1275, Phase::FirstByte),
            (1276, Phase::Streaming),
        ];
        steps.iter().for_each(|(at, phase)| division.enter(Time(*at), *phase));
        let spent = division.end(Time(1290)).expect("a transaction");
        assert_eq!(PHASES.map(|(phase, _)| spent.of(phase)), [7, 3, 51, 29, 100, 1000]);
        assert_eq!(spent.total(), 1190);
        assert_eq!((division.end(Time(2000)), division.present()), (None, None), "it is over");
        let mut sums = Sums::default();
        sums.add(&spent);
        sums.add(&spent);
        let mut all = sums;
        all.merge(&sums);
        assert_eq!((all.count, all.total(), all.of(Phase::Blocked)), (4, 4 * 1190, 400));
    }

    #[test]
    fn a_phase_goes_on_only_from_the_one_that_is_named() {
        let mut division = Division::default();
        division.go_on(Time(1), Phase::FirstByte, Phase::Streaming);
        assert_eq!(division.present(), None);
        division.enter(Time(1), Phase::Blocked);
        division.go_on(Time(2), Phase::FirstByte, Phase::Streaming);
        assert_eq!(division.present(), Some((Phase::Blocked, Time(1))));
        division.go_on(Time(2), Phase::Blocked, Phase::Streaming);
        assert_eq!(division.present(), Some((Phase::Streaming, Time(2))));
    }

    #[test]
    fn every_phase_has_its_place() {
        for (place, (phase, _)) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, place);
        }
        let mut division = Division::default();
        division.enter(Time(0), Phase::Thinking);
        assert_eq!(division.end(Time(u64::MAX)).map(|spent| spent.of(Phase::Thinking)), Some(u32::MAX));
    }
}
