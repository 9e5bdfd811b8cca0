//! Tracers: the console clients that run `TRACE`, and the happenings that wait to be sent to each.
//!
//! Always true: there are at most [`TRACERS_MAX`], and each ends; the happenings that wait for a slow reader are
//! bounded, and those that find no room are counted and reported; a place is reused only when no worker sends
//! happenings for its previous tracer any more.
//! Not here: the text of happenings (`console::happening`), when a trace begins and why it ends (`tracing`).

use std::collections::VecDeque;

use base::{Time, Wall};
use worker::letters::{Happening, TRACERS_MAX, Traced, What};

use crate::console;

/// All tracers; `K` identifies the console client of each.
#[derive(Debug)]
pub(crate) struct Tracers<K> {
    places: [TracerPlace<K>; TRACERS_MAX],
}

#[derive(Debug)]
enum TracerPlace<K> {
    Free,
    Taken(Box<Tracer<K>>),
    /// The trace has ended, but workers may still send happenings for it.
    Left,
}

/// A tracer.
#[derive(Debug)]
pub(crate) struct Tracer<K> {
    pub(crate) asker: K,
    pub(crate) traced: Traced,
    pub(crate) seconds: u64,
    /// The number of happenings sent,
    pub(crate) told: u64,
    /// and the number dropped.
    pub(crate) dropped: u64,
    until: Time,
    stage: TracerStage,
    /// The traced client has disconnected.
    is_alone: bool,
    waiting: VecDeque<Happening>,
    bytes: usize,
    /// Dropped happenings that have not been reported yet.
    dropped_now: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TracerStage {
    /// Not all workers know of the trace yet.
    Begins,
    /// The console client has taken everything sent so far.
    Reads,
    /// The console client has not yet taken what was sent last.
    Behind,
}

/// Why a trace ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// Its time is over.
    Time,
    /// It has sent `LINES_MAX` happenings.
    Full,
    /// The traced client has disconnected.
    Alone,
}

impl<K> Default for Tracers<K> {
    fn default() -> Self {
        Self { places: std::array::from_fn(|_| TracerPlace::Free) }
    }
}

impl<K: Copy + PartialEq> Tracers<K> {
    /// Begins a trace and returns its place, if there is one.
    pub(crate) fn begin(&mut self, asker: K, traced: Traced, seconds: u64, until: Time) -> Option<usize> {
        let place = self.places.iter().position(|place| matches!(place, TracerPlace::Free))?;
        let (stage, waiting) = (TracerStage::Begins, VecDeque::new());
        let (told, dropped, dropped_now, bytes, is_alone) = (0, 0, 0, 0, false);
        let tracer =
            Tracer { asker, traced, seconds, told, dropped, until, stage, is_alone, waiting, bytes, dropped_now };
        self.places[place] = TracerPlace::Taken(Box::new(tracer));
        Some(place)
    }

    /// Records that all workers know of the trace, and returns its first notice.
    pub(crate) fn begun(&mut self, place: usize, shows_values: bool) -> Option<(K, Vec<u8>)> {
        let tracer = self.get_mut(place)?;
        tracer.stage = TracerStage::Behind;
        let values = if shows_values { "with values" } else { "without values" };
        let (whom, seconds) = (console::whom(&tracer.traced), tracer.seconds);
        let mut bytes = Vec::new();
        console::write_line(&mut bytes, &format!("tracing {whom} for {seconds} s, {values}; Ctrl-C ends it"));
        Some((tracer.asker, bytes))
    }

    /// Ends the trace at this place.
    pub(crate) fn end(&mut self, place: usize) -> Option<Tracer<K>> {
        match std::mem::replace(self.places.get_mut(place)?, TracerPlace::Left) {
            TracerPlace::Taken(tracer) => Some(*tracer),
            other => {
                self.places[place] = other;
                None
            }
        }
    }

    /// Frees the place of a trace that has ended, once no worker sends happenings for it.
    pub(crate) fn leave(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place).filter(|place| matches!(place, TracerPlace::Left)) {
            *place = TracerPlace::Free;
        }
    }

    /// Takes happenings from a worker, and for each tracer the number of those that the worker dropped.
    pub(crate) fn hear(&mut self, happenings: Vec<Happening>, dropped: &[u64; TRACERS_MAX]) {
        for happening in happenings {
            for (number, place) in self.places.iter_mut().enumerate() {
                if let TracerPlace::Taken(tracer) = place
                    && happening.tracers & 1 << number != 0
                {
                    tracer.hear(&happening);
                }
            }
        }
        for (place, dropped) in self.places.iter_mut().zip(dropped) {
            if let TracerPlace::Taken(tracer) = place {
                tracer.drops(*dropped);
            }
        }
    }

    /// Records that a console client has taken what it was sent.
    pub(crate) fn took(&mut self, asker: K) {
        if let Some(tracer) = self.of(asker).and_then(|place| self.get_mut(place))
            && tracer.stage == TracerStage::Behind
        {
            tracer.stage = TracerStage::Reads;
        }
    }

    /// Returns the next part for a console client that is ready to take one: whole messages.
    pub(crate) fn next_part(&mut self) -> Option<(K, Vec<u8>)> {
        let has_part = |tracer: &&mut Tracer<K>| {
            tracer.stage == TracerStage::Reads && (!tracer.waiting.is_empty() || tracer.dropped_now > 0)
        };
        let tracer = self.iter_mut().find(has_part)?;
        tracer.stage = TracerStage::Behind;
        Some((tracer.asker, tracer.take()))
    }

    /// Returns the next trace that is to end.
    pub(crate) fn next_over(&self, now: Time) -> Option<(usize, Over)> {
        let over = |tracer: &Tracer<K>| match tracer {
            tracer if tracer.until <= now => Some(Over::Time),
            Tracer { told: LINES_MAX.., .. } => Some(Over::Full),
            Tracer { is_alone: true, stage: TracerStage::Reads | TracerStage::Behind, .. } => Some(Over::Alone),
            _ => None,
        };
        self.places.iter().enumerate().find_map(|(number, place)| match place {
            TracerPlace::Taken(tracer) => Some((number, over(tracer)?)),
            TracerPlace::Free | TracerPlace::Left => None,
        })
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let until = |place: &TracerPlace<K>| match place {
            TracerPlace::Taken(tracer) => Some(tracer.until),
            TracerPlace::Free | TracerPlace::Left => None,
        };
        self.places.iter().filter_map(until).min()
    }

    /// Returns whether the trace at this place is about a single client.
    pub(crate) fn is_about_a_client(&self, place: usize) -> bool {
        matches!(self.places.get(place), Some(TracerPlace::Taken(tracer)) if matches!(tracer.traced, Traced::Client(_)))
    }

    /// Returns the place of a console client's trace.
    pub(crate) fn of(&self, asker: K) -> Option<usize> {
        self.places.iter().position(|place| matches!(place, TracerPlace::Taken(tracer) if tracer.asker == asker))
    }

    /// Returns the places of all running traces.
    pub(crate) fn taken(&self) -> Vec<usize> {
        let taken = self.places.iter().enumerate().filter(|(_, place)| matches!(place, TracerPlace::Taken(_)));
        taken.map(|(number, _)| number).collect()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Tracer<K>> {
        match self.places.get_mut(place)? {
            TracerPlace::Taken(tracer) => Some(tracer),
            TracerPlace::Free | TracerPlace::Left => None,
        }
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tracer<K>> {
        self.places.iter_mut().filter_map(|place| match place {
            TracerPlace::Taken(tracer) => Some(&mut **tracer),
            TracerPlace::Free | TracerPlace::Left => None,
        })
    }
}

impl<K> Tracer<K> {
    fn hear(&mut self, happening: &Happening) {
        let is_end = matches!(happening.what, What::Left { .. });
        self.is_alone |= is_end && self.traced == Traced::Client(happening.client);
        let bytes = happening.bytes();
        if self.bytes + bytes > WAITING_BYTES_MAX || self.told + self.waiting.len() as u64 >= LINES_MAX {
            self.drops(1);
            return;
        }
        self.bytes += bytes;
        self.waiting.push_back(happening.clone());
    }

    fn drops(&mut self, count: u64) {
        self.dropped += count;
        self.dropped_now += count;
    }

    /// Returns the waiting happenings as lines, in whole messages.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.bytes = 0;
        for happening in std::mem::take(&mut self.waiting) {
            self.told += 1;
            let time = time_of_day(happening.at);
            console::write_line(&mut out, &format!("{time} {}", console::happening_line(&happening)));
        }
        match std::mem::take(&mut self.dropped_now) {
            0 => {}
            1 => console::write_line(&mut out, "1 happening more than can be told was dropped"),
            dropped => {
                console::write_line(&mut out, &format!("{dropped} happenings more than can be told were dropped"))
            }
        }
        out
    }
}

/// Formats a local time to the microsecond.
fn time_of_day(wall: Wall) -> String {
    let instant = jiff::Timestamp::from_microsecond(wall.0).unwrap_or_default();
    instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S%.6f").to_string()
}

/// The number of happenings that one trace may send.
const LINES_MAX: u64 = 100_000;
/// The number of bytes that may wait for a console client.
const WAITING_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn happening(tracers: u8, client: u64, what: What) -> Happening {
        Happening { at: Wall(0), tracers, client, server: None, what }
    }

    fn hears(tracers: &mut Tracers<u8>, count: usize, mask: u8) {
        let happenings = (0..count).map(|_| happening(mask, 1, What::Stays)).collect();
        tracers.hear(happenings, &[0; TRACERS_MAX]);
    }

    fn running(tracers: &mut Tracers<u8>, asker: u8) -> usize {
        let place = tracers.begin(asker, Traced::Client(u64::from(asker)), 9, Time(9)).expect("room");
        let (whose, bytes) = tracers.begun(place, false).expect("it is there");
        assert!(whose == asker && bytes[0] == b'N');
        place
    }

    #[test]
    fn who_has_not_taken_the_last_part_is_given_no_other() {
        let mut tracers = Tracers::default();
        running(&mut tracers, 1);
        hears(&mut tracers, 3, 1);
        assert_eq!(tracers.next_part(), None);
        tracers.took(1);
        let (asker, bytes) = tracers.next_part().expect("a part");
        let lines = String::from_utf8_lossy(&bytes).matches("C-0x1 server stays").count();
        assert_eq!((asker, lines), (1, 3));
        hears(&mut tracers, 1, 1);
        assert_eq!(tracers.next_part(), None);
        tracers.took(1);
        assert!(tracers.next_part().is_some());
    }

    #[test]
    fn what_waits_for_a_slow_reader_has_a_bound_and_the_rest_is_told_as_a_number() {
        let mut tracers = Tracers::default();
        let place = running(&mut tracers, 1);
        hears(&mut tracers, 10_000, 1);
        let mut dropped = [0; TRACERS_MAX];
        dropped[place] = 7;
        tracers.hear(Vec::new(), &dropped);
        tracers.took(1);
        let (_, bytes) = tracers.next_part().expect("a part");
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.matches("C-0x1 ").count();
        assert!((1000..5000).contains(&lines), "{lines}");
        assert!(text.contains(&format!("{} happenings more than can be told were dropped", 10_007 - lines)), "{lines}");
    }

    #[test]
    fn a_place_is_free_when_no_worker_tells_of_it_any_more() {
        let mut tracers = Tracers::default();
        let places: Vec<_> = (0..TRACERS_MAX as u8).map(|asker| running(&mut tracers, asker)).collect();
        assert_eq!(tracers.begin(99, Traced::Client(1), 1, Time(1)), None);
        assert!(tracers.end(places[3]).is_some() && tracers.end(places[3]).is_none());
        hears(&mut tracers, 1, 1 << 3);
        assert_eq!(tracers.begin(99, Traced::Client(1), 1, Time(1)), None);
        tracers.leave(places[2]);
        assert_eq!(tracers.taken().len(), TRACERS_MAX - 1, "it is taken and stays so");
        tracers.leave(places[3]);
        assert_eq!(tracers.begin(99, Traced::Client(1), 1, Time(1)), Some(places[3]));
    }

    #[test]
    fn it_is_over_with_its_time_its_room_or_its_client() {
        let mut tracers = Tracers::default();
        let place = running(&mut tracers, 5);
        assert_eq!((tracers.next_deadline(), tracers.next_over(Time(8))), (Some(Time(9)), None));
        assert_eq!(tracers.next_over(Time(9)), Some((place, Over::Time)));
        let left = || What::Left { why: "".into() };
        tracers.hear(vec![happening(1, 6, left())], &[0; TRACERS_MAX]);
        assert_eq!(tracers.next_over(Time(8)), None, "it is another client");
        tracers.hear(vec![happening(1, 5, left())], &[0; TRACERS_MAX]);
        assert_eq!(tracers.next_over(Time(8)), Some((place, Over::Alone)));
        tracers.end(place);
        tracers.leave(place);
        let place = running(&mut tracers, 6);
        for _ in 0..LINES_MAX / 1000 {
            tracers.took(6);
            hears(&mut tracers, 1000, 1);
            tracers.next_part();
        }
        assert_eq!(tracers.next_over(Time(8)), Some((place, Over::Full)));
    }
}
