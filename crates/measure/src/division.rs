//! The time of a transaction, divided without remainder.
//!
//! Always true: from its beginning to its end a transaction is in exactly one phase, so that the phases sum to the whole.

use base::Time;

/// What a transaction waits for, or does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Its client waits for a server.
    Waiting,
    /// Its server is told the client's settings and statements, or asked what the session keeps.
    Settings,
    /// The server has a request and has not answered yet.
    FirstByte,
    /// The server answers.
    Streaming,
    /// The client does not take what it is sent, and the server waits for that.
    Blocked,
    /// The server waits for the client to go on with its transaction.
    Thinking,
}

/// All of them, with the names that tables and metrics have for them.
pub const PHASES: [(Phase, &str); 6] = [
    (Phase::Waiting, "waiting"),
    (Phase::Settings, "settings"),
    (Phase::FirstByte, "first_byte"),
    (Phase::Streaming, "streaming"),
    (Phase::Blocked, "client_blocked"),
    (Phase::Thinking, "client_thinking"),
];

/// Where the time of the present transaction has gone so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Division {
    present: Option<(Phase, Time)>,
    spent: Spent,
}

/// Microseconds by [`Phase`]; one phase of more than 71 minutes counts as 71 minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent([u32; PHASES.len()]);

impl Division {
    /// The transaction is in this phase from now on; the first one begins it.
    #[inline]
    pub fn enter(&mut self, now: Time, phase: Phase) {
        if let Some((before, since)) = self.present.replace((phase, now)) {
            self.spent.add(before, micros(now, since));
        }
    }

    /// The same if it is in the phase `from`.
    #[inline]
    pub fn go_on(&mut self, now: Time, from: Phase, phase: Phase) {
        if self.present.is_some_and(|(present, _)| present == from) {
            self.enter(now, phase);
        }
    }

    /// In which phase it is, and since when.
    #[must_use]
    pub fn present(&self) -> Option<(Phase, Time)> {
        self.present
    }

    /// Where its time has gone until now.
    #[must_use]
    pub fn so_far(&self, now: Time) -> Spent {
        let mut spent = self.spent;
        if let Some((phase, since)) = self.present {
            spent.add(phase, micros(now, since));
        }
        spent
    }

    /// The transaction is over: where its time has gone. `None` if none had begun.
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
    /// In one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> u32 {
        self.0[phase as usize]
    }

    /// In all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|micros| u64::from(*micros)).sum()
    }

    /// What has been spent since it was this.
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

/// Where the time of many transactions has gone, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// How many transactions.
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

    /// Adds what somebody else has summed.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.micros.iter_mut().zip(other.micros).for_each(|(sum, micros)| *sum += micros);
    }

    /// In one phase.
    #[must_use]
    pub fn of(&self, phase: Phase) -> u64 {
        self.micros[phase as usize]
    }

    /// In all.
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
