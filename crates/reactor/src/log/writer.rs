//! The thread that writes the lines of one output, which is standard error or the log file. Either may block, like a
//! pipe that nobody reads or a disk that does not answer.
//!
//! Always true: lines are written in the order in which they were put. A thread that puts lines waits until they are
//! written, as long as the output keeps up, so that a line is in the log before the answer that it explains. It waits
//! no longer than [`LATE_AFTER`], not at all while the output is blocked, and all threads together for a hundredth of
//! the time. Lines that do not fit into the queue, and lines that the output refuses, are lost and counted; while that
//! goes on, the other outputs can tell ([`Writer::trouble`]); when the output takes lines again, a line in it tells how
//! many were lost.
//! Not here: the format of a line (`log`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::subject::Marks;
use super::{Level, Stamp};

/// An output, and the thread that writes to it. The thread starts with the first line, and ends when this is dropped
/// and all lines are written.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<WriterShared>,
    output: Output,
}

/// Names the lines of one [`Writer::put`] and all lines before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receipt(u64);

impl Writer {
    /// Writes to standard error.
    pub(super) fn to_stderr() -> Self {
        Self::new(Sink::Stderr)
    }

    /// Writes to a file that was opened for appending.
    pub(super) fn to_file(file: File) -> Self {
        Self::new(Sink::File(file))
    }

    fn new(sink: Sink) -> Self {
        let shared = WriterShared {
            sink,
            queue: Mutex::new(Queue::new(Instant::now())),
            filled: Condvar::new(),
            written: Condvar::new(),
        };
        Self { shared: Arc::new(shared), output: Output::default() }
    }

    /// Continues the counters of the writer that this one replaces. Nothing has been put to this one yet.
    pub(super) fn in_place_of(&mut self, old: &Self) {
        self.output = old.output.clone();
    }

    /// Queues whole lines. `stamp` is theirs.
    pub(super) fn put(&self, lines: &str, count: u64, stamp: &Stamp) -> Receipt {
        let mut queue = self.shared.queue();
        if queue.lines.len() + lines.len() > QUEUE_BYTES_MAX {
            queue.overflowed += count;
            self.output.lost.fetch_add(count, Ordering::Relaxed);
            self.output.trouble.store(NOT_READ, Ordering::Relaxed);
            return Receipt(queue.put);
        }
        queue.lines.push_str(lines);
        queue.count += count;
        queue.put += 1;
        queue.stamp.clone_from(stamp);
        let receipt = Receipt(queue.put);
        match queue.thread {
            Thread::None => self.employ(queue),
            Thread::Asleep => self.shared.wake(&mut queue),
            Thread::Napping | Thread::Awake => {}
        }
        receipt
    }

    /// Waits until the lines are written, unless the output is late or the time for waiting is used up.
    pub(super) fn wait(&self, receipt: Receipt) {
        let mut queue = self.shared.queue();
        let now = Instant::now();
        if queue.is_written(receipt) || queue.is_late || !queue.credit.allows(LATE_AFTER, now) {
            return;
        }
        self.shared.wake(&mut queue);
        let (mut queue, wait) = self.shared.wait_for(queue, receipt, LATE_AFTER);
        queue.is_late = wait.timed_out();
        queue.credit.spend(now.elapsed());
    }

    /// Waits until all lines are written, before the process ends.
    pub(super) fn finish(&self) {
        let mut queue = self.shared.queue();
        let receipt = Receipt(queue.put);
        if queue.is_written(receipt) {
            return;
        }
        self.shared.wake(&mut queue);
        drop(self.shared.wait_for(queue, receipt, FAREWELL_MAX));
    }

    /// That the output takes no lines at present, and why, for a line in the other outputs, which is due once a minute.
    pub(super) fn trouble(&self) -> Option<String> {
        let Output { trouble, missing, .. } = &self.output;
        let why = match trouble.load(Ordering::Relaxed) {
            NO_TROUBLE => return None,
            NOT_READ => "it does not keep up".to_owned(),
            number => errno_words(number),
        };
        let mut queue = self.shared.queue();
        if queue.told_at.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            return None;
        }
        queue.told_at = Some(Instant::now());
        let missing = missing.load(Ordering::Relaxed) + queue.overflowed;
        let are_lost = if missing == 1 { "line is lost" } else { "lines are lost" };
        Some(format!("{} takes no lines, {missing} {are_lost} so far: {why}", self.shared.sink.name()))
    }

    /// Lines that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.output.lost.load(Ordering::Relaxed)
    }

    /// Starts the thread. If the system has no thread left, the caller writes the lines.
    fn employ(&self, mut queue: MutexGuard<'_, Queue>) {
        let (shared, output) = (Arc::clone(&self.shared), self.output.clone());
        let thread = std::thread::Builder::new().name(shared.sink.name().to_owned()).stack_size(STACK_BYTES);
        match thread.spawn(move || shared.serve(&output)) {
            Ok(_) => queue.thread = Thread::Awake,
            Err(_) => drop(self.shared.write(queue, &self.output)),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_over = true;
        self.shared.wake(&mut queue);
    }
}

/// What the thread shares with the threads that put lines.
#[derive(Debug)]
struct WriterShared {
    sink: Sink,
    queue: Mutex<Queue>,
    /// Signals lines to write, or the end.
    filled: Condvar,
    written: Condvar,
}

impl WriterShared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nobody can have panicked while holding the lock: a panic ends the process.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, queue: &mut Queue) {
        if matches!(queue.thread, Thread::Napping | Thread::Asleep) {
            queue.thread = Thread::Awake;
            self.filled.notify_one();
        }
    }

    fn wait_for<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        receipt: Receipt,
        longest: Duration,
    ) -> (MutexGuard<'a, Queue>, std::sync::WaitTimeoutResult) {
        let waited = self.written.wait_timeout_while(queue, longest, |queue| !queue.is_written(receipt));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of the thread.
    fn serve(&self, output: &Output) {
        let mut queue = self.queue();
        loop {
            if !queue.lines.is_empty() {
                queue = self.write(queue, output);
            } else if queue.is_over {
                return;
            } else {
                queue = self.rest(queue);
            }
        }
    }

    /// Waits for lines. The thread naps before it sleeps: while lines follow each other closely, a thread that does not
    /// wait for its lines wakes nobody, and several lines are written with one call.
    fn rest<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.thread = Thread::Napping;
        let nap = self.filled.wait_timeout(queue, NAP);
        (queue, _) = nap.unwrap_or_else(PoisonError::into_inner);
        if queue.lines.is_empty() && !queue.is_over {
            queue.thread = Thread::Asleep;
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.thread = Thread::Awake;
        queue
    }

    /// Writes all lines of the queue with one call.
    fn write<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, output: &Output) -> MutexGuard<'a, Queue> {
        let lines = std::mem::take(&mut queue.lines);
        let count = std::mem::take(&mut queue.count);
        let overflowed = std::mem::take(&mut queue.overflowed);
        let (number, stamp) = (queue.put, queue.stamp.clone());
        drop(queue);
        output.put(&self.sink, self.sink.name(), &stamp, &lines, count);
        // The overflowed lines would have come after those just written.
        output.missing.fetch_add(overflowed, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.written = number;
        queue.is_late &= !queue.lines.is_empty();
        self.written.notify_all();
        queue
    }
}

/// The lines that wait to be written.
#[derive(Debug)]
struct Queue {
    lines: String,
    count: u64,
    /// The stamp for the line that reports lost lines.
    stamp: Stamp,
    /// How often lines were put, and how many of these are done with.
    put: u64,
    written: u64,
    /// Lines that found no room since the thread last took the queue.
    overflowed: u64,
    thread: Thread,
    /// A thread has waited in vain, and the writing thread has not caught up since.
    is_late: bool,
    credit: Credit,
    /// When it was told last that the output takes no lines.
    told_at: Option<Instant>,
    is_over: bool,
}

impl Queue {
    fn new(now: Instant) -> Self {
        Self {
            lines: String::new(),
            count: 0,
            stamp: Stamp::default(),
            put: 0,
            written: 0,
            overflowed: 0,
            thread: Thread::None,
            is_late: false,
            credit: Credit { left: CREDIT_MAX, at: now },
            told_at: None,
            is_over: false,
        }
    }

    fn is_written(&self, receipt: Receipt) -> bool {
        self.written >= receipt.0
    }
}

/// What the writing thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thread {
    /// It was not started.
    None,
    /// It will look at the queue before it rests.
    Awake,
    /// It will look at the queue in a moment.
    Napping,
    /// It has to be woken.
    Asleep,
}

/// How long threads may wait for the output: a hundredth of the elapsed time, accumulated up to [`CREDIT_MAX`].
#[derive(Clone, Copy, Debug)]
struct Credit {
    left: Duration,
    at: Instant,
}

impl Credit {
    /// Whether a thread may wait for as long as `longest`.
    fn allows(&mut self, longest: Duration, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at) / 100;
        (self.left, self.at) = ((self.left + gained).min(CREDIT_MAX), now);
        self.left >= longest
    }

    fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

/// An output.
#[derive(Debug)]
enum Sink {
    Stderr,
    File(File),
}

impl Sink {
    fn name(&self) -> &'static str {
        match self {
            Self::Stderr => "standard error",
            Self::File(_) => "the log file",
        }
    }
}

impl io::Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            // Not through the library's handle, whose lock would be held while the pipe is blocked.
            Sink::Stderr => Ok(rustix::io::write(io::stderr().as_fd(), bytes)?),
            Sink::File(file) => Ok(rustix::io::write(file, bytes)?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an output did not take. Clones share the counters.
#[derive(Clone, Debug, Default)]
struct Output {
    /// Lines lost since the process started.
    lost: Arc<AtomicU64>,
    /// Lost lines that were not reported to the output yet.
    missing: Arc<AtomicU64>,
    /// The output took only the beginning of a line.
    is_torn: Arc<AtomicBool>,
    /// The number of the last error if the output takes no lines, or one of the constants.
    trouble: Arc<AtomicI32>,
}

impl Output {
    /// Writes lines, and before them how many were lost. Returns whether the output took all of them.
    fn put(&self, mut to: impl io::Write, name: &str, stamp: &Stamp, lines: &str, count: u64) -> bool {
        let missing = self.missing.load(Ordering::Relaxed);
        let mut text = String::new();
        if missing > 0 {
            if self.is_torn.load(Ordering::Relaxed) {
                text.push('\n');
            }
            let line = format!("{name} takes lines again, {missing} were lost");
            stamp.push(&mut text, Level::Warning, Marks::default(), &line);
            text.push_str(lines);
        }
        let bytes = if missing > 0 { text.as_bytes() } else { lines.as_bytes() };
        let (written, error) = write_most(&mut to, bytes);
        self.trouble.store(error, Ordering::Relaxed);
        if written == bytes.len() {
            if missing > 0 {
                self.missing.store(0, Ordering::Relaxed);
                self.is_torn.store(false, Ordering::Relaxed);
            }
            return true;
        }
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.missing.fetch_add(count, Ordering::Relaxed);
        if written > 0 {
            self.is_torn.store(bytes[written - 1] != b'\n', Ordering::Relaxed);
        }
        false
    }
}

/// Writes until an error occurs, and returns how many bytes were taken and the number of the error.
fn write_most(to: &mut impl io::Write, bytes: &[u8]) -> (usize, i32) {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => return (written, NOT_READ),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, error.raw_os_error().unwrap_or(NOT_READ)),
        }
    }
    (written, NO_TROUBLE)
}

/// The words of a system error, without its number.
fn errno_words(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

/// Values of [`Output::trouble`] that are no number of an error.
const NO_TROUBLE: i32 = 0;
const NOT_READ: i32 = -1;
/// How often at most it is told that an output takes no lines.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The longest that a thread waits for its lines to be written.
const LATE_AFTER: Duration = Duration::from_millis(10);
/// Most waiting time that can be accumulated.
const CREDIT_MAX: Duration = Duration::from_millis(100);
/// The longest that a process waits for its last lines.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// How long the thread waits for further lines before it has to be woken.
const NAP: Duration = Duration::from_millis(1);
/// Most bytes of lines that wait for an output.
const QUEUE_BYTES_MAX: usize = 1 << 20;
const STACK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    /// A pipe, and a writer to it.
    fn pipe() -> (io::PipeReader, Writer) {
        let (reader, writer) = io::pipe().expect("a pipe");
        (reader, Writer::to_file(File::from(OwnedFd::from(writer))))
    }

    fn now() -> Stamp {
        Stamp { text: "now ".to_owned(), ..Stamp::default() }
    }

    fn put(writer: &Writer, line: &str) {
        let receipt = writer.put(&format!("{line}\n"), 1, &now());
        writer.wait(receipt);
    }

    #[test]
    fn lines_are_written_when_whoever_put_them_goes_on() {
        let (mut reader, writer) = pipe();
        for line in ["one", "two", "three"] {
            put(&writer, line);
            let mut text = vec![0; line.len() + 1];
            // Without the line the pipe would block, and the test would not end.
            assert!(writer.shared.queue().is_written(Receipt(1)), "{line}");
            reader.read_exact(&mut text).expect("a line");
            assert_eq!(String::from_utf8(text).expect("text"), format!("{line}\n"));
        }
    }

    #[test]
    fn an_output_that_stands_still_is_waited_for_once_and_told_what_it_has_missed() {
        let (mut reader, writer) = pipe();
        let line = "x".repeat(999);
        while !writer.shared.queue().is_late {
            put(&writer, &line);
        }
        let credit = writer.shared.queue().credit.left;
        while writer.lost() < 10 {
            put(&writer, &line);
        }
        assert_eq!(writer.shared.queue().credit.left, credit, "nobody waited again");
        let put_before = writer.shared.queue().put;
        let mut text = vec![0; 1000];
        for _ in 0..put_before {
            reader.read_exact(&mut text).expect("all lines that found room are written");
            assert!(text.starts_with(b"xxx") && text.ends_with(b"x\n"));
        }
        writer.finish();
        put(&writer, "again");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("the end, since the thread has ended");
        assert_eq!(rest, "now WARNING the log file takes lines again, 10 were lost\nagain\n");
    }

    #[test]
    fn an_output_that_takes_no_lines_is_told_of_once_a_minute_while_that_lasts() {
        let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
        let writer = Writer::to_file(full);
        assert_eq!(writer.trouble(), None);
        put(&writer, "one");
        let told = "the log file takes no lines, 1 line is lost so far: No space left on device";
        assert_eq!(writer.trouble().as_deref(), Some(told));
        put(&writer, "two");
        assert_eq!(writer.trouble(), None);
        writer.shared.queue().told_at = Instant::now().checked_sub(TOLD_EVERY);
        let told = "the log file takes no lines, 2 lines are lost so far: No space left on device";
        assert_eq!(writer.trouble().as_deref(), Some(told));
        // A line is taken.
        writer.output.trouble.store(NO_TROUBLE, Ordering::Relaxed);
        writer.shared.queue().told_at = None;
        assert_eq!(writer.trouble(), None);
    }

    #[test]
    fn a_hundredth_of_the_time_is_spent_with_waiting() {
        let start = Instant::now();
        let mut credit = Credit { left: CREDIT_MAX, at: start };
        let mut waited = Duration::ZERO;
        for milliseconds in 0..10_000 {
            if credit.allows(LATE_AFTER, start + Duration::from_millis(milliseconds)) {
                credit.spend(LATE_AFTER);
                waited += LATE_AFTER;
            }
        }
        assert_eq!(waited, CREDIT_MAX + Duration::from_millis(90));
    }

    /// Takes `room` bytes, and then no more until it is given room.
    struct Disk {
        taken: Vec<u8>,
        room: usize,
    }

    impl io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.taken.extend_from_slice(&bytes[..count]);
            self.room -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_can_be_written_again_is_told_what_it_has_missed() {
        let (output, mut disk) = (Output::default(), Disk { taken: Vec::new(), room: 8 });
        let mut put = |room: usize, lines: &str, count| {
            disk.room += room;
            let taken = output.put(&mut disk, "the log file", &now(), lines, count);
            (taken, String::from_utf8(std::mem::take(&mut disk.taken)).expect("text"))
        };
        assert_eq!(put(0, "one\n", 1), (true, "one\n".to_owned()));
        assert_eq!(put(0, "torn by this\n", 1), (false, "torn".to_owned()));
        assert_eq!(put(0, "two\nthree\n", 2), (false, String::new()));
        assert_eq!(
            put(99, "four\n", 1),
            (true, "\nnow WARNING the log file takes lines again, 3 were lost\nfour\n".to_owned())
        );
        assert_eq!(put(0, "five\n", 1), (true, "five\n".to_owned()));
    }
}
