//! The course of a `TRACE`: its beginning, the parts sent to the console client, and its end.
//!
//! Always true: the console client is answered once, when the trace ends.
//! Not here: the waiting happenings (`tracers`), carrying out the steps (`orders`), what workers report
//! (`worker::observe::tracing`).

use base::Time;

use crate::console::{self, Answer, Refusal};
use crate::tracers::{Over, Tracer, Tracers};

/// A step to be carried out for a trace.
#[derive(PartialEq, Debug)]
pub(crate) enum Step<K> {
    /// Send a part to the console client.
    Part(K, Vec<u8>),
    /// Answer the console client.
    Answer(K, Answer),
    /// Have the workers stop reporting for the trace.
    Forget { place: usize, asker: K },
}

impl<K: Copy + PartialEq> Tracers<K> {
    /// Begins a client's trace once all workers know of it; `known` of them have a client that it applies to.
    pub(crate) fn begins(&mut self, asker: K, known: u32, shows_values: bool) -> Vec<Step<K>> {
        let Some(place) = self.of(asker) else { return Vec::new() };
        if known == 0 && self.is_about_a_client(place) {
            let hint = "SHOW CLIENTS lists the clients; those of the console are not traced.";
            return self.end_with(place, |_| Answer::Refused(Refusal::new("client not found").hinted(hint)));
        }
        self.begun(place, shows_values).map(|(asker, bytes)| Step::Part(asker, bytes)).into_iter().collect()
    }

    /// Returns the parts to be sent, and the ends of traces that are over.
    pub(crate) fn due_steps(&mut self, now: Time) -> Vec<Step<K>> {
        let mut steps = Vec::new();
        while let Some((asker, bytes)) = self.next_part() {
            steps.push(Step::Part(asker, bytes));
        }
        while let Some((place, over)) = self.next_over(now) {
            let why = match over {
                Over::Time => "its time is over",
                Over::Full => "it has told as much as a trace may",
                Over::Alone => "the client has gone",
            };
            steps.extend(self.end_with(place, |tracer| last_words(tracer, why)));
        }
        steps
    }

    /// Ends the trace of a console client that cancels it.
    pub(crate) fn cancel(&mut self, asker: K) -> Vec<Step<K>> {
        let Some(place) = self.of(asker) else { return Vec::new() };
        self.end_with(place, |tracer| last_words(tracer, "it was cancelled"))
    }

    /// Ends the trace of a console client that has disconnected.
    pub(crate) fn forget(&mut self, asker: K) -> Vec<Step<K>> {
        let place = self.of(asker);
        place
            .filter(|place| self.end(*place).is_some())
            .map(|place| Step::Forget { place, asker })
            .into_iter()
            .collect()
    }

    /// Ends all traces because another process takes over the clients.
    pub(crate) fn end_all(&mut self) -> Vec<Step<K>> {
        let taken = self.taken();
        let end = |place| self.end_with(place, |_| Answer::Refused(console::trace_ended_by_restart()));
        taken.into_iter().flat_map(end).collect()
    }

    fn end_with(&mut self, place: usize, answer: impl FnOnce(&Tracer<K>) -> Answer) -> Vec<Step<K>> {
        let Some(mut tracer) = self.end(place) else { return Vec::new() };
        let (asker, rest) = (tracer.asker, tracer.take());
        let rest = (!rest.is_empty()).then_some(Step::Part(asker, rest));
        let end = [Step::Forget { place, asker }, Step::Answer(asker, answer(&tracer))];
        rest.into_iter().chain(end).collect()
    }
}

fn last_words<K>(tracer: &Tracer<K>, why: &str) -> Answer {
    let dropped = match tracer.dropped {
        0 => String::new(),
        1 => "; 1 happening was dropped".to_owned(),
        dropped => format!("; {dropped} happenings were dropped"),
    };
    let whom = console::whom(&tracer.traced);
    Answer::noted(format!("TRACE {}", tracer.told), format!("the trace of {whom} ends: {why}{dropped}"))
}

#[cfg(test)]
mod tests {
    use base::Wall;
    use worker::letters::{Happening, TRACERS_MAX, Traced, What};

    use super::*;

    fn begun(tracers: &mut Tracers<u8>, asker: u8, known: u32) -> Vec<Step<u8>> {
        tracers.begin(asker, Traced::Client(7), 60, Time::from_secs(60)).expect("room");
        tracers.begins(asker, known, false)
    }

    fn kinds(steps: &[Step<u8>]) -> Vec<&'static str> {
        let kind = |step: &Step<u8>| match step {
            Step::Part(..) => "part",
            Step::Answer(_, Answer::Refused(_)) => "refusal",
            Step::Answer(..) => "answer",
            Step::Forget { .. } => "forget",
        };
        steps.iter().map(kind).collect()
    }

    #[test]
    fn a_client_whom_nobody_knows_is_said_to_be_so() {
        let mut tracers = Tracers::default();
        assert_eq!(kinds(&begun(&mut tracers, 1, 0)), ["forget", "refusal"]);
        assert_eq!(kinds(&begun(&mut tracers, 2, 1)), ["part"]);
        assert_eq!(tracers.cancel(1), []);
    }

    #[test]
    fn what_is_left_is_told_before_the_answer() {
        let mut tracers = Tracers::default();
        begun(&mut tracers, 1, 1);
        let stays = Happening { at: Wall(0), tracers: 1, client: 7, server: None, what: What::Stays };
        tracers.hear(vec![stays], &[3; TRACERS_MAX]);
        let steps = tracers.cancel(1);
        assert_eq!(kinds(&steps), ["part", "forget", "answer"]);
        let Some(Step::Answer(1, Answer::Done { tag, notice: Some(notice) })) = steps.last() else {
            panic!("{steps:?}")
        };
        let words = "the trace of client C-0x7 ends: it was cancelled; 3 happenings were dropped";
        assert_eq!((&**tag, &*notice.text), ("TRACE 1", words));
        assert_eq!(tracers.cancel(1), []);
    }

    #[test]
    fn it_ends_in_time_with_its_client_and_with_a_restart() {
        let mut tracers = Tracers::default();
        begun(&mut tracers, 1, 1);
        assert_eq!(tracers.due_steps(Time::from_secs(59)), []);
        assert_eq!(kinds(&tracers.due_steps(Time::from_secs(60))), ["forget", "answer"]);
        begun(&mut tracers, 2, 1);
        assert_eq!(kinds(&tracers.forget(2)), ["forget"]);
        assert_eq!(tracers.forget(2), []);
        begun(&mut tracers, 3, 1);
        assert_eq!(kinds(&tracers.end_all()), ["forget", "refusal"]);
    }
}
