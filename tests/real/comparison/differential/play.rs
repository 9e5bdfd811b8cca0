//! Runs a program against an address and records everything that comes back.
//!
//! Always true: it ends, at the latest when a message is late; the end of the transcript then tells what is missing.
//! Not here: comparing (`normal`).

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tests::message;
use tests::notation::{self, decode, show};
use tests::peer::{Frame, Lost, Peer};
use tests::wait::LIMIT;

use super::program::{Burst, Ending, Hurry, Program, Then};
use super::rest::Rest;

/// What a client received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    /// The parameters of the login.
    pub(super) welcome: BTreeMap<String, String>,
    /// Everything after the first ReadyForQuery.
    pub(super) frames: Vec<Frame>,
    /// How many of `frames` had arrived when the client went on after each burst that waits.
    pub(super) marks: Vec<usize>,
    /// How the connection ended.
    pub(super) end: End,
    /// The contents of the program's tables afterwards.
    pub(super) left: Vec<Vec<Option<String>>>,
}

/// How a connection ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum End {
    /// The client left by itself and read no further.
    #[default]
    Left,
    /// The other side closed it, after a Terminate.
    Closed,
    /// Another end, as a description.
    Broken(String),
}

/// How a client knows that its burst has been answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace<'a> {
    /// By PostgreSQL's own rules.
    Rules,
    /// By the number of messages that PostgreSQL sent.
    Marks(&'a [usize]),
}

/// Where a program is run.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) address: SocketAddr,
    pub(super) database: String,
    /// How long a message may take.
    pub(super) patience: Duration,
    /// PostgreSQL before 14 also reports a parameter that was set or reset without a change of its value. Such a repetition
    /// is not compared there.
    pub(super) tells_again: bool,
}

impl Transcript {
    /// The answers up to each mark, in the form that a script expects.
    pub(super) fn answers(&self) -> Vec<String> {
        let starts = [0].into_iter().chain(self.marks.iter().copied());
        starts.zip(&self.marks).map(|(from, to)| list(&self.frames[from..*to])).collect()
    }
}

/// Runs a program.
///
/// # Errors
/// A sentence when the program is not fair: a unit of it leaves state of the session open. Checked only with
/// [`Pace::Rules`].
pub(super) fn play(line: &Line, program: &Program, pace: Pace<'_>) -> Result<Transcript, String> {
    let mut talk = match Talk::login(line, program) {
        Ok(talk) => talk,
        Err(reason) => return Ok(Transcript { end: End::Broken(reason), ..Transcript::default() }),
    };
    let mut unit_before = 0;
    for (number, (unit, burst)) in program.bursts().enumerate() {
        if matches!(pace, Pace::Rules) && unit != unit_before && !talk.rest.is_neutral() {
            let answers = talk.transcript.answers();
            let script = program.script(&answers);
            return Err(format!("rule 1: unit {unit_before} does not end as it began: {:?}\n{script}", talk.rest));
        }
        unit_before = unit;
        let is_said = number == 0 && program.hurry == Hurry::Yes;
        let said = if is_said { Ok(()) } else { talk.say(burst) };
        if let Err(reason) = said.and_then(|()| talk.wait(burst, pace)) {
            talk.transcript.end = End::Broken(reason);
            return Ok(talk.transcript);
        }
    }
    if matches!(pace, Pace::Rules) && program.ending == Ending::Terminate && talk.rest.is_copying_in() {
        return Err("rule 4: a Terminate would come into a COPY".to_string());
    }
    talk.leave(program.ending);
    Ok(talk.transcript)
}

/// Messages in the notation of the scripts.
pub(super) fn list(frames: &[Frame]) -> String {
    frames.iter().map(|frame| show(&decode(notation::Sender::Server, frame))).collect::<Vec<_>>().join(", ")
}

struct Talk {
    pen: Pen,
    peer: Peer,
    patience: Duration,
    tells_again: bool,
    /// The last reported value of each parameter.
    told: BTreeMap<String, String>,
    rest: Rest,
    transcript: Transcript,
}

impl Talk {
    fn login(line: &Line, program: &Program) -> Result<Self, String> {
        let stream = TcpStream::connect_timeout(&line.address, LIMIT).map_err(|error| error.to_string())?;
        let writer = stream.try_clone().map_err(|error| error.to_string())?;
        let peer = Peer::accepted(stream).map_err(|error| error.to_string())?;
        let mut talk = Self {
            pen: Pen::Inline(writer),
            peer,
            patience: line.patience,
            tells_again: line.tells_again,
            told: BTreeMap::new(),
            rest: Rest::default(),
            transcript: Transcript::default(),
        };
        let own = program.startup.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs: Vec<_> = [("user", "u"), ("database", line.database.as_str())].into_iter().chain(own).collect();
        let mut pieces = vec![message::startup(0, &pairs)];
        if let (Hurry::Yes, Some((_, burst))) = (program.hurry, program.bursts().next()) {
            burst.messages.iter().for_each(|message| talk.rest.sends(message.kind()));
            let mut more = burst.pieces();
            pieces[0].extend(more.remove(0));
            pieces.extend(more);
        }
        talk.pen.write(pieces)?;
        loop {
            let frame = talk.peer.frame_within(talk.patience).map_err(|lost| format!("in the login: {lost}"))?;
            match frame.tag {
                b'S' => {
                    if let [name, value] = &message::read_strings(&frame.body, 2).0[..] {
                        talk.transcript.welcome.insert(name.clone(), value.clone());
                    }
                }
                b'Z' => {
                    talk.told.clone_from(&talk.transcript.welcome);
                    return Ok(talk);
                }
                b'R' | b'K' => {}
                _ => return Err(format!("in the login: {}", list(&[frame]))),
            }
        }
    }

    fn say(&mut self, burst: &Burst) -> Result<(), String> {
        burst.messages.iter().for_each(|message| self.rest.sends(message.kind()));
        self.pen.write(burst.pieces())
    }

    fn wait(&mut self, burst: &Burst, pace: Pace<'_>) -> Result<(), String> {
        if burst.then == Then::GoOn {
            return Ok(());
        }
        let is_enough = |talk: &Self| match pace {
            Pace::Rules => talk.rest.is_reached(),
            Pace::Marks(marks) => {
                // Where there is no mark, PostgreSQL has ended the session, and the pooler must do so too.
                marks.get(talk.transcript.marks.len()).is_some_and(|mark| talk.transcript.frames.len() >= *mark)
            }
        };
        while !is_enough(self) {
            self.hear().map_err(|lost| lost.to_string())?;
        }
        self.transcript.marks.push(self.transcript.frames.len());
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Lost> {
        let frame = self.peer.frame_within(self.patience)?;
        self.rest.hears(frame.tag, &frame.body);
        if !self.is_told_again(&frame) {
            self.transcript.frames.push(frame);
        }
        Ok(())
    }

    fn is_told_again(&mut self, frame: &Frame) -> bool {
        if !self.tells_again || frame.tag != b'S' {
            return false;
        }
        match <[String; 2]>::try_from(message::read_strings(&frame.body, 2).0) {
            Ok([name, value]) => self.told.insert(name, value.clone()) == Some(value),
            Err(_) => false,
        }
    }

    fn leave(&mut self, ending: Ending) {
        self.transcript.end = match ending {
            Ending::Vanish => End::Left,
            Ending::Terminate => match self.pen.write(vec![message::terminate()]) {
                Err(reason) => End::Broken(reason),
                Ok(()) => loop {
                    match self.hear() {
                        Ok(()) => {}
                        Err(Lost::Closed) => break End::Closed,
                        Err(lost) => break End::Broken(lost.to_string()),
                    }
                },
            },
        };
    }
}

/// The writing half. From its first long burst on, a client writes in a separate thread, so that it and PostgreSQL do not
/// both wait for the other to read.
enum Pen {
    Inline(TcpStream),
    Beside(Sender<Vec<Vec<u8>>>),
}

impl Pen {
    fn write(&mut self, pieces: Vec<Vec<u8>>) -> Result<(), String> {
        let bytes: usize = pieces.iter().map(Vec::len).sum();
        match self {
            Self::Inline(stream) if bytes > INLINE_BYTES_MAX => {
                let stream = stream.try_clone().map_err(|error| error.to_string())?;
                let (sender, receiver) = channel();
                // The thread ends with the connection at the latest.
                std::thread::spawn(move || write_beside(stream, &receiver));
                *self = Self::Beside(sender);
                self.write(pieces)
            }
            Self::Inline(stream) => write(stream, &pieces).map_err(|error| error.to_string()),
            // A failed write shows in what the client reads.
            Self::Beside(sender) => {
                let _ = sender.send(pieces);
                Ok(())
            }
        }
    }
}

fn write_beside(mut stream: TcpStream, bursts: &Receiver<Vec<Vec<u8>>>) {
    while let Ok(pieces) = bursts.recv()
        && write(&mut stream, &pieces).is_ok()
    {}
}

fn write(stream: &mut TcpStream, pieces: &[Vec<u8>]) -> std::io::Result<()> {
    pieces.iter().try_for_each(|piece| stream.write_all(piece))
}

/// A burst of at most so many bytes fits into the kernel's buffers, whatever is being answered.
const INLINE_BYTES_MAX: usize = 16_384;
