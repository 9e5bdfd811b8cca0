//! One connection of a client, and the check of every message that it receives.
//!
//! Always true: each message is either the next wanted one, or one that may arrive at any time and belongs to this client, or an
//! error for which the soak has given a reason; anything else is a violation.
//! Not here: the requests (`ops`), when a client leaves (`life`).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tests::client::read_key;
use tests::message::{self, Complaint};
use tests::peer::{Frame, Lost, Peer};

use super::era::{Era, Method};
use super::eras::Moment;
use super::want::{Want, show};
use super::world::{Phase, World};
use super::{secrets, verdict};

/// A client that is connected.
pub(crate) struct Session<'a> {
    pub(crate) world: &'a World,
    pub(crate) who: Who,
    pub(crate) diary: &'a mut Diary,
    /// The status in the last ReadyForQuery.
    pub(crate) status: char,
    /// How the client will leave in the middle of something, if it will.
    pub(crate) fuse: Option<Fuse>,
    pub(crate) peer: Peer,
    /// The value of `TimeZone`, and the value that the current request sets.
    pub(crate) zone: &'static str,
    pub(crate) next_zone: Option<&'static str>,
    /// When the current request began.
    pub(crate) since: Instant,
    stage: Stage,
    /// When the client began to connect.
    opened: Moment,
    /// When the first request was sent that has not been answered yet.
    asked: Option<Moment>,
}

/// How far the login of a client is.
#[derive(Debug)]
enum Stage {
    /// The client authenticates with the requested method, if one was requested.
    Login { method: Method, password: String },
    /// The login finished at this moment.
    Inside(Moment),
}

/// How a client connects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) door: SocketAddr,
    pub(crate) zone: &'static str,
    pub(crate) fuse: Option<Fuse>,
    pub(crate) haste: Haste,
    pub(crate) memory: Memory,
}

/// Which password a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    Fresh,
    /// The password before the last change.
    Stale,
}

/// The identity of a client.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) id: usize,
    pub(crate) user: &'static str,
    pub(crate) database: &'static str,
}

impl Who {
    /// Its `application_name`.
    pub(crate) fn name(&self) -> String {
        format!("soak-{}", self.id)
    }
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side ended it, for a reason that the injected faults explain.
    Gone(String),
    /// The client itself left in the middle of something.
    Left,
    /// The pooler has done something wrong.
    Wrong(String),
}

/// Whether a client waits for the end of the login before it sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    Patient,
    QueryAtOnce,
}

/// How a client leaves in the middle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fuse {
    /// After so many sent bytes.
    Bytes(usize),
    /// After so many whole sent messages.
    Messages(usize),
    /// After so many received messages.
    Frames(usize),
    /// The client shuts down its sending direction after the next request and goes on reading.
    HalfClose,
}

impl Fuse {
    /// The client sends these bytes. Returns how many of them, if it leaves within them.
    fn burn(&mut self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Bytes(left) if *left < bytes.len() => Some(*left),
            Self::Bytes(left) => {
                *left -= bytes.len();
                None
            }
            Self::Messages(left) => {
                let mut at = 0;
                while let Some([_, a, b, c, d]) = bytes.get(at..at + 5) {
                    if *left == 0 {
                        return Some(at);
                    }
                    *left -= 1;
                    at += 1 + u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                }
                None
            }
            Self::Frames(_) | Self::HalfClose => None,
        }
    }
}

/// Result of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// Everything that was wanted has arrived.
    All,
    /// An error arrived instead, with this code; the session goes on.
    Failed(String),
}

impl<'a> Session<'a> {
    /// Connects and logs in.
    pub(crate) fn open(world: &'a World, who: &Who, diary: &'a mut Diary, entrance: &Entrance) -> Result<Self, End> {
        let (opened, latest) = (world.eras.now(), world.eras.latest());
        let Entrance { zone, fuse, memory, .. } = *entrance;
        // A client that has to send a password must not send any request before it.
        let haste = if latest.method == Method::Trust { entrance.haste } else { Haste::Patient };
        let password = match memory {
            Memory::Fresh => latest.password(who.user),
            Memory::Stale => latest.old_password(who.user),
        };
        diary.note(format!("connects to {} as {}, {zone}, {memory:?}", who.database, who.user));
        let peer = Peer::tcp(entrance.door).map_err(|error| End::Gone(error.to_string()))?;
        let mut session = Self {
            world,
            who: who.clone(),
            diary,
            status: ' ',
            fuse,
            peer,
            zone,
            next_zone: None,
            since: Instant::now(),
            stage: Stage::Login { method: Method::Trust, password },
            opened,
            asked: None,
        };
        session.log_in(haste)?;
        world.tally.logins.add(1);
        if haste == Haste::QueryAtOnce {
            session.hear(&Want::one_row(&["early"], &[&session.who.name()]), 'I')?;
        }
        Ok(session)
    }

    /// A text that no client has ever sent before.
    pub(crate) fn tag(&mut self) -> String {
        self.diary.serial += 1;
        format!("k{}.{}", self.who.id, self.diary.serial)
    }

    /// Sends a request, or the part of it after which the client leaves.
    pub(crate) fn send(&mut self, name: &str, bytes: &[u8]) -> Result<(), End> {
        // Messages that follow before the ReadyForQuery, such as the rows of a COPY, belong to the same request.
        if self.asked.is_none() {
            (self.since, self.asked) = (Instant::now(), Some(self.world.eras.now()));
        }
        self.diary.note(format!("> {name}"));
        if let Some(left) = self.fuse.as_mut().and_then(|fuse| fuse.burn(bytes)) {
            self.diary.note(format!("leaves after {left} of {} bytes", bytes.len()));
            let _ = self.peer.try_send(&bytes[..left]);
            return Err(End::Left);
        }
        self.peer.try_send(bytes).map_err(|error| End::Gone(format!("cannot send: {error}")))?;
        if let Some(Fuse::HalfClose) = self.fuse {
            self.diary.note("ends its direction".to_string());
            self.peer.finish_sending();
        }
        Ok(())
    }

    /// Sends a Query and receives its answer.
    pub(crate) fn query(&mut self, sql: &str, wants: &[Want], ready: char) -> Result<Heard, End> {
        self.send(super::want::short(sql).as_str(), &message::query(sql))?;
        self.hear(wants, ready)
    }

    /// Receives an answer up to its ReadyForQuery.
    pub(crate) fn hear(&mut self, wants: &[Want], ready: char) -> Result<Heard, End> {
        let failed = match (self.status, ready) {
            ('I', 'I') => "I",
            ('I', _) => "IE",
            _ => "E",
        };
        self.hear_or(wants, ready, failed)
    }

    /// Receives an answer up to its ReadyForQuery, which after an error has one of the statuses `failed`.
    pub(crate) fn hear_or(&mut self, wants: &[Want], ready: char, failed: &str) -> Result<Heard, End> {
        let heard = self.hear_part(wants)?;
        let mut statuses = [0; 4];
        let allowed = if heard == Heard::All { &*ready.encode_utf8(&mut statuses) } else { failed };
        self.hear_ready(allowed)?;
        Ok(heard)
    }

    /// Receives the wanted messages, without a ReadyForQuery after them.
    pub(crate) fn hear_part(&mut self, wants: &[Want]) -> Result<Heard, End> {
        for want in wants {
            loop {
                let frame = self.frame()?;
                if want.fits(&frame) {
                    break;
                }
                match frame.tag {
                    b'E' => return self.fail(&frame).map(Heard::Failed),
                    _ => self.overhear(&frame, &format!("{want:?}"))?,
                }
            }
        }
        Ok(Heard::All)
    }

    /// Receives the ReadyForQuery that is due.
    pub(crate) fn hear_ready(&mut self, allowed: &str) -> Result<(), End> {
        loop {
            let frame = self.frame()?;
            if frame.tag != b'Z' {
                if frame.tag == b'E' {
                    // The connection may end in the place of ReadyForQuery, but no other error may arrive there.
                    let code = self.fail(&frame)?;
                    return Err(self.wrong(format!("error {code} came in the place of ReadyForQuery")));
                }
                self.overhear(&frame, "ReadyForQuery")?;
                continue;
            }
            self.world.tally.answers.add(1);
            self.expect_database()?;
            self.status = frame.body.first().map_or('?', |status| *status as char);
            return match allowed.contains(self.status) {
                true => Ok(()),
                false => Err(self.wrong(format!("ReadyForQuery says {:?} instead of {allowed:?}", self.status))),
            };
        }
    }

    /// Receives this FATAL error and then the end of the connection.
    pub(crate) fn hear_end(&mut self, words: &str) -> Result<(), End> {
        loop {
            let frame = self.frame()?;
            if frame.tag != b'E' {
                self.overhear(&frame, &format!("FATAL {words}"))?;
                continue;
            }
            let complaint = Complaint::read(&frame);
            if complaint.text != words {
                self.fail(&frame)?;
                return Err(self.wrong(format!("expected FATAL {words}")));
            }
            self.world.tally.error(&complaint.code, &complaint.text);
            return Err(self.await_end(&complaint));
        }
    }

    /// Judges a message that is not the wanted one: a permitted error fails the request; anything else must belong to this
    /// client.
    pub(crate) fn judge(&mut self, frame: &Frame, wanted: &str) -> Result<Heard, End> {
        match frame.tag {
            b'E' => self.fail(frame).map(Heard::Failed),
            _ => self.overhear(frame, wanted).map(|()| Heard::All),
        }
    }

    /// Receives the next message.
    pub(crate) fn frame(&mut self) -> Result<Frame, End> {
        if let Some(Fuse::Frames(left)) = &mut self.fuse {
            if *left == 0 {
                self.diary.note("leaves instead of reading on".to_string());
                return Err(End::Left);
            }
            *left -= 1;
        }
        match self.peer.frame_within(ANSWERED) {
            Ok(frame) => {
                self.diary.hear(frame.tag, show(&frame));
                Ok(frame)
            }
            Err(Lost::Closed) => Err(End::Gone("closed without a word".to_string())),
            Err(lost) => Err(self.wrong(lost.to_string())),
        }
    }

    /// Waits for a moment without a request, on a connection without faults: nothing may arrive but the error that the
    /// database is removed. Returns whether that error is overdue.
    pub(crate) fn stand_by(&mut self, limit: Duration) -> Result<bool, End> {
        let before = self.world.eras.now();
        match self.peer.frame_within(limit) {
            Err(Lost::Late) => Ok(self.is_surely_sent_away(before)),
            Err(lost) => Err(self.wrong(format!("a client that asked nothing was let go without a word: {lost}"))),
            Ok(frame) if frame.tag == b'E' && Complaint::read(&frame).text == REMOVED => {
                let code = self.fail(&frame)?;
                Err(self.wrong(format!("{code} was not FATAL")))
            }
            Ok(frame) => Err(self.wrong(format!("to a client that asked nothing came {}", show(&frame)))),
        }
    }

    /// Returns whether the message is an error by which the pooler may end this connection.
    fn is_end_by_pooler(&self, frame: &Frame) -> bool {
        let complaint = Complaint::read(frame);
        frame.tag == b'E' && !verdict::is_end_by_server(&complaint) && self.may_end(&complaint)
    }

    /// A violation, with the recent history of the client.
    pub(crate) fn wrong(&self, what: String) -> End {
        End::Wrong(format!("{what}\n{}", self.world.board.show(self.who.id)))
    }

    fn log_in(&mut self, haste: Haste) -> Result<(), End> {
        let name = self.who.name();
        let parameters = [
            ("user", self.who.user),
            ("database", self.who.database),
            ("application_name", &name),
            ("TimeZone", self.zone),
        ];
        let mut bytes = message::startup(0, &parameters);
        if haste == Haste::QueryAtOnce {
            bytes.extend(message::query("select current_setting('application_name') as early"));
        }
        self.send(&format!("startup, {haste:?}"), &bytes)?;
        loop {
            let frame = self.frame()?;
            match frame.tag {
                b'R' if frame.body == [0; 4] => {}
                b'R' => self.prove(&frame, haste)?,
                b'S' => self.parameter_at_login(&frame)?,
                b'K' => self.world.board.login(self.who.id, read_key(&frame)),
                b'Z' if frame.body == b"I" => {
                    self.status = 'I';
                    return self.enter(haste);
                }
                b'E' => {
                    let code = self.fail(&frame)?;
                    return Err(self.wrong(format!("a login ended with an error that is not FATAL: {code}")));
                }
                _ => return Err(self.wrong(format!("in a login came {}", show(&frame)))),
            }
        }
    }

    /// Answers the authentication request.
    fn prove(&mut self, question: &Frame, haste: Haste) -> Result<(), End> {
        let Stage::Login { method, password } = &mut self.stage else {
            return Err(self.wrong(format!("a client inside was asked {}", show(question))));
        };
        let Some((asked, answer)) = secrets::answer(question, self.who.user, password) else {
            return Err(self.wrong(format!("in a login came {}", show(question))));
        };
        *method = asked;
        if haste == Haste::QueryAtOnce {
            self.diary.note("is asked for a password though it has said more already".to_string());
            return Err(End::Left);
        }
        self.send("password", &answer)
    }

    /// The pooler has accepted the login: some configuration since the connection began must have allowed that.
    fn enter(&mut self, haste: Haste) -> Result<(), End> {
        let now = self.world.eras.now();
        if haste == Haste::Patient {
            self.asked = None;
        }
        if !self.world.eras.may_be(self.opened, now, |era| era.has(self.who.database)) {
            return Err(self.wrong("it was let in to a database that does not exist".to_string()));
        }
        if !self.may_be_judged(true) {
            return Err(self.wrong(format!("it was let in by {:?}", self.stage)));
        }
        self.stage = Stage::Inside(now);
        Ok(())
    }

    /// Returns whether some configuration since the connection began accepts (or refuses) the client with the method that
    /// was requested.
    fn may_be_judged(&self, is_in: bool) -> bool {
        let Stage::Login { method, password } = &self.stage else { return false };
        let fits = |era: &Era| era.method == *method && era.lets_in(self.who.user, password) == is_in;
        self.world.eras.may_be(self.opened, self.world.eras.now(), fits)
    }

    /// Returns whether the pooler must have disconnected all clients of the database between the login of this one and `by`.
    fn is_surely_sent_away(&self, by: Moment) -> bool {
        let Stage::Inside(entered) = self.stage else { return false };
        self.world.eras.must_have_sent_away(entered, by, self.who.database)
    }

    /// An answer has arrived. It must not answer a request that was sent after the client must have been disconnected.
    fn expect_database(&mut self) -> Result<(), End> {
        let asked = self.asked.take();
        match asked.is_some_and(|asked| self.is_surely_sent_away(asked)) {
            true => Err(self.wrong("a request was answered though its client had been sent away before".to_string())),
            false => Ok(()),
        }
    }

    /// Returns whether a connection may end with this error.
    fn may_end(&self, complaint: &Complaint) -> bool {
        let (eras, database) = (&self.world.eras, self.who.database);
        let lacks = |era: &Era| !era.has(database);
        match complaint.text.as_str() {
            _ if complaint.code != "08P01" => verdict::may_end(complaint),
            REMOVED => eras.may_have_sent_away(self.opened, eras.now(), database),
            "password authentication failed" | "SASL authentication failed" | "\"trust\" authentication failed" => {
                self.may_be_judged(false)
            }
            text if text.strip_prefix("no such database: ") == Some(database) => {
                matches!(self.stage, Stage::Login { .. }) && eras.may_be(self.opened, eras.now(), lacks)
            }
            _ => verdict::may_end(complaint),
        }
    }

    fn parameter_at_login(&self, frame: &Frame) -> Result<(), End> {
        let pair = message::read_strings(&frame.body, 2).0;
        match &pair[..] {
            [name, value] if self.own_parameter(name).is_some_and(|own| own != *value) => {
                Err(self.wrong(format!("the welcome says {name} = {value}")))
            }
            _ => Ok(()),
        }
    }

    /// Judges a message that no request asked for: it must belong to this client all the same.
    fn overhear(&mut self, frame: &Frame, wanted: &str) -> Result<(), End> {
        let is_own = match frame.tag {
            b'N' => verdict::is_notice_of_the_pooler(&Complaint::read(frame)),
            b'S' => match &message::read_strings(&frame.body, 2).0[..] {
                [name, value] => {
                    let next = self.next_zone.filter(|_| name == "TimeZone").map(str::to_string);
                    self.own_parameter(name).is_some_and(|own| own == *value) || next.as_ref() == Some(value)
                }
                _ => false,
            },
            _ => false,
        };
        match is_own {
            true => Ok(()),
            false => Err(self.wrong(format!("wanted {wanted}\n   got {}", show(frame)))),
        }
    }

    fn own_parameter(&self, name: &str) -> Option<String> {
        match name {
            "TimeZone" => Some(self.zone.to_string()),
            "application_name" => Some(self.who.name()),
            _ => None,
        }
    }

    /// Judges an error in the place of an answer; returns its code when the session goes on.
    fn fail(&mut self, frame: &Frame) -> Result<String, End> {
        let complaint = Complaint::read(frame);
        self.world.tally.error(&complaint.code, &complaint.text);
        if complaint.severity == "FATAL" {
            return Err(match self.may_end(&complaint) {
                true => self.await_end(&complaint),
                false => self.wrong(format!("nothing gave a reason for {complaint:?}")),
            });
        }
        if complaint.code == verdict::CANCELLED {
            self.world.tally.cancelled.add(1);
            if !self.world.board.may_have_hit(self.who.id, self.since) {
                return Err(self.wrong(format!("cancelled, but nobody asked for it: {complaint:?}")));
            }
        }
        match verdict::may_fail(&complaint) && self.world.phase() < Phase::Proof {
            true => Ok(complaint.code),
            false => Err(self.wrong(format!("nothing gave a reason for {complaint:?}"))),
        }
    }

    /// After a FATAL the connection ends; if the FATAL was the server's, the pooler may add an error of its own.
    fn await_end(&mut self, told: &Complaint) -> End {
        loop {
            match self.peer.frame_within(ANSWERED) {
                Err(Lost::Closed) => return End::Gone(told.code.clone()),
                Err(lost) => return self.wrong(format!("behind a FATAL: {lost}")),
                Ok(frame) if verdict::is_end_by_server(told) && self.is_end_by_pooler(&frame) => {}
                Ok(frame) => return self.wrong(format!("behind a FATAL came {}", show(&frame))),
            }
        }
    }
}

/// Recent messages of a client, and its serial number for tags.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    lines: VecDeque<(Instant, String)>,
    serial: u64,
    /// Type of the last received message, and how many of that type arrived in a row.
    run: (u8, u64),
}

impl Diary {
    pub(crate) fn note(&mut self, line: String) {
        if self.lines.len() == DIARY_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((Instant::now(), line));
    }

    fn hear(&mut self, kind: u8, message: String) {
        self.run = if self.run.0 == kind { (kind, self.run.1 + 1) } else { (kind, 1) };
        // Of many rows the first and the last ones are enough.
        if self.run.1 > 3 && self.lines.back().is_some_and(|(_, line)| line.starts_with('<')) {
            self.lines.pop_back();
        }
        self.note(format!("< {message}"));
    }

    /// How many tags have been issued.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The last lines, each with its age.
    pub(crate) fn show(&self) -> String {
        let ago = |moment: &Instant| moment.elapsed().as_secs_f64();
        self.lines.iter().map(|(moment, line)| format!("  -{:7.3} s  {line}\n", ago(moment))).collect()
    }
}

/// No answer takes longer, whatever the proxies do, including queues, stalls and slow transfers.
const ANSWERED: Duration = Duration::from_secs(90);
const DIARY_LINES: usize = 60;
/// The error for clients of a database that is gone from the configuration, or whose servers now log in as another user.
const REMOVED: &str = "database removed";
