//! The queue of spans for the collector: batches, retries and losses.
//!
//! Always true: one batch is under way at a time; the queue is bounded in number and in bytes; a batch is tried at most
//! [`TRIES_MAX`] times, with growing pauses, and never before the time that the collector has asked for; spans that are
//! not accepted are counted. One line is logged when posting begins to fail, and one when it succeeds again.
//! Not here: posting (`post`), encoding (`encode`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::{Random, Time, Wall};
use config::{Endpoint, OtlpHeaders, Settings};
use reactor::Level;
use worker::letters::StatementSpans;

/// Spans that are posted together. Their ids stay the same at every retry.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) statements: Vec<StatementSpans>,
    /// The seed from which the ids of the spans are drawn.
    pub(crate) seed: u64,
}

impl Batch {
    fn spans(&self) -> u64 {
        self.statements.iter().map(StatementSpans::count).sum()
    }
}

/// A batch with everything needed to post it.
#[derive(Clone, Debug)]
pub struct Posting {
    pub(crate) batch: Arc<Batch>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) headers: Arc<OtlpHeaders>,
    pub(crate) ca_file: Option<String>,
    pub(crate) service_name: String,
}

/// The outcome of posting a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Posted {
    /// The collector has accepted the batch, except for the spans it rejected.
    Taken {
        /// The number of rejected spans.
        rejected: u64,
        /// Why.
        why: String,
    },
    /// The post may be retried.
    Again {
        /// The pause that the collector asks for.
        after: Option<Duration>,
        /// Why the post failed.
        why: String,
    },
    /// The batch will never be accepted.
    Refused {
        /// Why.
        why: String,
    },
}

/// Numbers of spans since the start, by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Accepted by the collector.
    pub(crate) sent: u64,
    /// Dropped because the queue of a worker or of this thread was full.
    pub(crate) full: u64,
    /// Dropped because the collector could not be reached, or was busy, for too long.
    pub(crate) unreachable: u64,
    /// Rejected by the collector.
    pub(crate) refused: u64,
    /// In the queue when `otlp_endpoint` was removed.
    pub(crate) switched_off: u64,
    /// The number of failed posts.
    pub(crate) failures: u64,
}

impl Counts {
    /// Returns the numbers of lost spans by reason.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 4] {
        let Self { full, unreachable, refused, switched_off, .. } = *self;
        [("full", full), ("unreachable", unreachable), ("refused", refused), ("switched_off", switched_off)]
    }

    fn dropped_in_all(&self) -> u64 {
        self.dropped().iter().map(|(_, count)| count).sum()
    }
}

/// The queue and the state of posting.
#[derive(Debug)]
pub(crate) struct Exporter {
    waiting: VecDeque<StatementSpans>,
    /// The size of the queue.
    bytes: usize,
    /// When the first statement in the queue arrived.
    since: Time,
    stage: PostingStage,
    counts: Counts,
    /// The number of spans lost when posting began to fail, while it fails.
    failing: Option<u64>,
    /// The next pause after a failure.
    pause: Duration,
    random: Random,
}

#[derive(Debug)]
enum PostingStage {
    /// No batch is under way.
    Rests,
    /// A batch is under way, for the `tries`th time.
    Posts { batch: Arc<Batch>, tries: u32 },
    /// Nothing is posted until then; `batch`, if any, has been tried `tries` times.
    Pauses { batch: Option<Arc<Batch>>, tries: u32, until: Time },
}

/// A line for the log.
pub(crate) type Line = (Level, String);

impl Exporter {
    /// Seeds the ids of spans from a secret and the time, so that no two processes draw the same ids.
    pub(crate) fn new(secret: &[u8], wall: Wall) -> Self {
        let mut hasher = DefaultHasher::new();
        (secret, wall.0).hash(&mut hasher);
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            since: Time::default(),
            stage: PostingStage::Rests,
            counts: Counts::default(),
            failing: None,
            pause: PAUSE_MIN,
            random: Random::new(hasher.finish()),
        }
    }

    /// Takes statements from a worker, and the number of spans that the worker dropped.
    pub(crate) fn hear(&mut self, now: Time, statements: Vec<StatementSpans>, dropped: u64, settings: &Settings) {
        self.counts.full += dropped;
        if self.waiting.is_empty() {
            self.since = now;
        }
        for statement in statements {
            let bytes = statement.bytes();
            if settings.otlp_endpoint.is_none() {
                self.counts.switched_off += statement.count();
            } else if self.waiting.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX {
                self.counts.full += statement.count();
            } else {
                self.bytes += bytes;
                self.waiting.push_back(statement);
            }
        }
    }

    /// Returns what is to be posted now, if anything; [`Exporter::posted`] must follow.
    pub(crate) fn next(&mut self, now: Time, settings: &Settings) -> Option<Posting> {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        let endpoint = settings.otlp_endpoint.clone()?;
        let (batch, tries) = match std::mem::replace(&mut self.stage, PostingStage::Rests) {
            PostingStage::Pauses { batch: Some(batch), tries, .. } => (batch, tries),
            PostingStage::Rests | PostingStage::Pauses { batch: None, .. } => (self.next_batch(now)?, 0),
            // Unreachable: there is no deadline while a batch is under way.
            posts @ PostingStage::Posts { .. } => {
                self.stage = posts;
                return None;
            }
        };
        self.stage = PostingStage::Posts { batch: Arc::clone(&batch), tries: tries + 1 };
        Some(Posting {
            batch,
            endpoint,
            headers: Arc::clone(&settings.otlp_headers),
            ca_file: settings.otlp_ca_file.clone(),
            service_name: settings.otlp_service_name.clone(),
        })
    }

    /// Returns the rest of the queue when the process ends, for one last try; nothing if the collector is failing or a
    /// batch is under way.
    pub(crate) fn last(&mut self, now: Time, settings: &Settings) -> Option<Posting> {
        if self.failing.is_some() || matches!(self.stage, PostingStage::Posts { .. }) {
            return None;
        }
        self.since = Time::default();
        self.next(now, settings)
    }

    fn next_batch(&mut self, now: Time) -> Option<Arc<Batch>> {
        let count = self.waiting.len().min(BATCH_MAX);
        let statements: Vec<_> = self.waiting.drain(..count).collect();
        self.bytes -= statements.iter().map(StatementSpans::bytes).sum::<usize>();
        self.since = now;
        (count > 0).then(|| Arc::new(Batch { statements, seed: self.random.next_u64() }))
    }

    /// Handles the outcome of the batch under way.
    pub(crate) fn posted(&mut self, now: Time, posted: &Posted, settings: &Settings) -> Option<Line> {
        let PostingStage::Posts { batch, tries } = std::mem::replace(&mut self.stage, PostingStage::Rests) else {
            return None;
        };
        let spans = batch.spans();
        let why = match posted {
            Posted::Taken { rejected: 0, .. } => {
                self.counts.sent += spans;
                self.pause = PAUSE_MIN;
                return self.succeeds(settings);
            }
            Posted::Taken { rejected, why } => {
                let rejected = (*rejected).min(spans);
                self.counts.sent += spans - rejected;
                self.counts.refused += rejected;
                self.pause = PAUSE_MIN;
                format!("it rejects {rejected} of {spans} spans: {why}")
            }
            Posted::Refused { why } => {
                self.counts.refused += spans;
                why.clone()
            }
            Posted::Again { after, why } => {
                let kept = if tries < TRIES_MAX && settings.otlp_endpoint.is_some() { Some(batch) } else { None };
                if kept.is_none() {
                    self.counts.unreachable += spans;
                }
                let until = now + self.next_pause(*after);
                let tries = if kept.is_some() { tries } else { 0 };
                self.stage = PostingStage::Pauses { batch: kept, tries, until };
                why.clone()
            }
        };
        self.fails(&why, settings)
    }

    /// Returns the pause after a failure: what the collector has asked for, within bounds, or the present pause, which
    /// doubles each time, with up to 100 % random jitter added.
    fn next_pause(&mut self, after: Option<Duration>) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        let jitter = Duration::from_micros(self.random.below(pause.as_micros() as u64));
        after.map_or(pause + jitter, |after| after.min(AFTER_MAX).max(pause))
    }

    fn fails(&mut self, why: &str, settings: &Settings) -> Option<Line> {
        self.counts.failures += 1;
        if self.failing.is_some() {
            return None;
        }
        self.failing = Some(self.counts.dropped_in_all());
        let line = format!("spans cannot be posted to {}: {why}", name_of(settings));
        Some((Level::Warning, line))
    }

    fn succeeds(&mut self, settings: &Settings) -> Option<Line> {
        let before = self.failing.take()?;
        let dropped = self.counts.dropped_in_all() - before;
        let line = format!("spans are posted to {} again; {dropped} have been dropped meanwhile", name_of(settings));
        Some((Level::Log, line))
    }

    /// Adapts to new settings: if they name another collector, waiting spans are posted to it at once.
    pub(crate) fn heed(&mut self, now: Time, old: &Settings, new: &Settings) {
        let parts = |settings: &Settings| {
            (settings.otlp_endpoint.clone(), settings.otlp_headers.clone(), settings.otlp_ca_file.clone())
        };
        if parts(old) == parts(new) {
            return;
        }
        (self.failing, self.pause) = (None, PAUSE_MIN);
        if let PostingStage::Pauses { until, tries, .. } = &mut self.stage {
            (*until, *tries) = (now, 0);
        }
        if new.otlp_endpoint.is_none() {
            self.counts.switched_off += self.waiting.iter().map(StatementSpans::count).sum::<u64>();
            (self.waiting, self.bytes) = (VecDeque::new(), 0);
            if let PostingStage::Pauses { batch, .. } = &self.stage {
                self.counts.switched_off += batch.as_ref().map_or(0, |batch| batch.spans());
                self.stage = PostingStage::Rests;
            }
        }
    }

    /// Returns when [`Exporter::next`] has something to post.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let waits = !self.waiting.is_empty();
        let full = || if self.waiting.len() >= BATCH_MAX { self.since } else { self.since + GATHERED_FOR };
        match &self.stage {
            PostingStage::Posts { .. } => None,
            PostingStage::Pauses { batch: Some(_), until, .. } => Some(*until),
            PostingStage::Pauses { batch: None, until, .. } => waits.then(|| full().max(*until)),
            PostingStage::Rests => waits.then(full),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

fn name_of(settings: &Settings) -> String {
    settings.otlp_endpoint.as_ref().map_or_else(|| "the collector".to_owned(), |endpoint| endpoint.to_string())
}

/// Statements per batch,
const BATCH_MAX: usize = 512;
/// or the time over which a smaller batch is gathered.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// Statements in the queue,
const WAITING_MAX: usize = 8192;
/// and their total size.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// Attempts per batch.
const TRIES_MAX: u32 = 5;
/// The shortest pause after a failure,
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// and the longest, before jitter,
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// and the longest that a collector may ask for.
const AFTER_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use route::TraceParent;
    use worker::letters::SpanText;

    use super::*;

    fn on() -> Settings {
        let endpoint = Endpoint::parse("http://a:4318/v1/traces?token=secret").expect("a URL");
        Settings { otlp_endpoint: Some(Arc::new(endpoint)), ..Settings::default() }
    }

    /// Each statement has two spans.
    fn statements(count: usize) -> Vec<StatementSpans> {
        let statement = StatementSpans {
            parent: TraceParent { trace_id: [1; 16], span_id: [2; 8], is_sampled: true },
            state: "".into(),
            begun: Wall(0),
            took: Duration::ZERO,
            database: "d".into(),
            user: "u".into(),
            client: 1,
            client_address: None,
            wait: Some((None, Duration::ZERO)),
            server: None,
            error: None,
            text: SpanText::default(),
            shows_values: false,
        };
        vec![statement; count]
    }

    fn exporter() -> Exporter {
        Exporter::new(b"secret", Wall(7))
    }

    fn secs(secs: u64) -> Time {
        Time::from_secs(secs)
    }

    fn taken() -> Posted {
        Posted::Taken { rejected: 0, why: String::new() }
    }

    fn again(after: Option<u64>) -> Posted {
        Posted::Again { after: after.map(Duration::from_secs), why: "no answer".to_owned() }
    }

    #[test]
    fn spans_are_gathered_for_a_second_or_until_they_are_many() {
        let (mut exporter, on) = (exporter(), on());
        exporter.hear(secs(10), statements(3), 0, &on);
        exporter.hear(Time(10_500_000), statements(3), 0, &on);
        assert_eq!(exporter.next_deadline(), Some(secs(11)));
        assert!(exporter.next(Time(10_999_999), &on).is_none());
        assert_eq!(exporter.next(secs(11), &on).expect("a batch").batch.statements.len(), 6);
        assert_eq!(exporter.next_deadline(), None, "one is under way");
        exporter.hear(secs(12), statements(BATCH_MAX + 1), 0, &on);
        assert!(exporter.next(secs(20), &on).is_none());
        assert_eq!(exporter.posted(secs(20), &taken(), &on), None);
        assert_eq!(exporter.next(secs(20), &on).expect("a batch").batch.statements.len(), BATCH_MAX);
        exporter.posted(secs(20), &taken(), &on);
        assert_eq!(exporter.next_deadline(), Some(secs(21)));
        assert_eq!(exporter.counts().sent, 12 + 2 * BATCH_MAX as u64);
    }

    #[test]
    fn a_collector_that_is_down_is_left_alone_for_longer_and_longer() {
        let (mut exporter, on) = (exporter(), on());
        exporter.hear(secs(10), statements(1), 0, &on);
        let (mut now, mut seeds, mut pauses, mut lines) = (secs(11), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TRIES_MAX {
            seeds.push(exporter.next(now, &on).expect("it is time").batch.seed);
            lines.extend(exporter.posted(now, &again(None), &on));
            exporter.hear(now, statements(1), 0, &on);
            let next = exporter.next_deadline().expect("another try");
            pauses.push(next.since(now).as_secs());
            now = next;
        }
        assert!(seeds.iter().all(|seed| *seed == seeds[0]), "the ids of spans stay");
        assert!(
            pauses.iter().zip([1, 2, 4, 8, 16]).all(|(pause, least)| (least..2 * least).contains(pause)),
            "{pauses:?}"
        );
        let warning = "spans cannot be posted to http://a:4318/v1/traces: no answer".to_owned();
        assert_eq!(lines, [(Level::Warning, warning)], "one line, without a token");
        assert_eq!(exporter.counts().unreachable, 2, "it has been tried often enough");
        assert_eq!(exporter.next(now, &on).expect("the next batch").batch.statements.len(), 5);
        let line = "spans are posted to http://a:4318/v1/traces again; 2 have been dropped meanwhile".to_owned();
        assert_eq!(exporter.posted(now, &taken(), &on), Some((Level::Log, line)));
        assert_eq!((exporter.counts().sent, exporter.counts().failures), (10, 5));
    }

    #[test]
    fn a_collector_is_not_asked_before_the_time_that_it_names() {
        let (mut exporter, on) = (exporter(), on());
        exporter.hear(secs(10), statements(1), 0, &on);
        assert!(exporter.next(secs(11), &on).is_some());
        exporter.posted(secs(11), &again(Some(42)), &on);
        assert_eq!(exporter.next_deadline(), Some(secs(53)));
        assert!(exporter.next(secs(52), &on).is_none() && exporter.next(secs(53), &on).is_some());
        exporter.posted(secs(53), &again(Some(1_000_000)), &on);
        assert_eq!(exporter.next_deadline(), Some(secs(53) + AFTER_MAX));
    }

    #[test]
    fn what_a_collector_does_not_want_is_not_tried_again() {
        let (mut exporter, on) = (exporter(), on());
        exporter.hear(secs(10), statements(2), 0, &on);
        exporter.next(secs(11), &on).expect("a batch");
        let told = exporter.posted(secs(11), &Posted::Refused { why: "status 401".into() }, &on);
        assert!(told.is_some_and(|(level, line)| level == Level::Warning && line.ends_with("status 401")));
        exporter.hear(secs(11), statements(2), 0, &on);
        exporter.next(secs(12), &on).expect("the next batch");
        let told = exporter.posted(secs(12), &Posted::Taken { rejected: 99, why: "bad".into() }, &on);
        assert_eq!((told, exporter.counts().refused, exporter.counts().sent), (None, 8, 0));
    }

    #[test]
    fn what_waits_has_a_bound() {
        let (mut exporter, on) = (exporter(), on());
        exporter.hear(secs(10), statements(WAITING_MAX + 5), 7, &on);
        assert_eq!(exporter.counts().full, 17);
        let mut long = statements(1);
        long[0].text.bytes = vec![b'x'; 4096].into();
        (0..WAITING_MAX).for_each(|_| exporter.hear(secs(10), long.clone(), 0, &on));
        assert!(exporter.bytes <= WAITING_BYTES_MAX && exporter.waiting.len() <= WAITING_MAX);
    }

    #[test]
    fn it_can_be_switched_off_and_over_at_any_time() {
        let (mut exporter, on, off) = (exporter(), on(), Settings::default());
        exporter.hear(secs(10), statements(1), 0, &on);
        exporter.next(secs(11), &on).expect("a batch");
        exporter.posted(secs(11), &again(None), &on);
        exporter.hear(secs(11), statements(1), 0, &on);
        let other = Settings { otlp_headers: Arc::new(OtlpHeaders::parse("a=b").expect("headers")), ..on.clone() };
        exporter.heed(secs(11), &on, &other);
        assert_eq!(exporter.next_deadline(), Some(secs(11)), "another token may do");
        exporter.heed(secs(11), &other, &off);
        assert_eq!((exporter.next_deadline(), exporter.counts().switched_off), (None, 4));
        exporter.hear(secs(11), statements(1), 0, &off);
        assert_eq!((exporter.next_deadline(), exporter.counts().switched_off), (None, 6));
        exporter.heed(secs(12), &off, &on);
        exporter.hear(secs(12), statements(1), 0, &on);
        exporter.next(secs(13), &on).expect("a batch");
        exporter.heed(secs(13), &on, &off);
        exporter.posted(secs(13), &again(None), &off);
        assert_eq!(exporter.counts().unreachable, 2);
    }

    #[test]
    fn what_is_left_at_the_end_is_tried_once() {
        let (mut exporter, on) = (exporter(), on());
        assert!(exporter.last(secs(10), &on).is_none());
        exporter.hear(secs(10), statements(1), 0, &on);
        assert!(exporter.last(secs(10), &on).is_some());
        exporter.posted(secs(10), &again(None), &on);
        assert!(exporter.last(secs(100), &on).is_none(), "nobody answers");
    }
}
