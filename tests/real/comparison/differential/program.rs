//! A program: what one client sends, from its login to its end.
//!
//! Always true: a program is a value; the same seed makes the same one, and it can be made smaller and shown as a script.
//! Not here: which programs are fair to compare (`rules`), and how they are generated (`generate`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::Random;
use tests::notation::{Sender, encode};
use tests::peer::Frame;

/// Everything that one client does.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) confinement: Confinement,
    /// Parameters of the startup packet, beside user and database.
    pub(super) startup: Vec<(String, String)>,
    pub(super) hurry: Hurry,
    pub(super) units: Vec<Unit>,
    pub(super) ending: Ending,
}

/// Where the effects of a program on its session end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    /// At the end of the transaction: the program may run in any pool mode.
    Transaction,
    /// At the end of the session: the program may run in session mode only.
    Session,
}

/// When a client sends its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hurry {
    /// After the login.
    No,
    /// Along with its startup packet.
    Yes,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With Terminate.
    Terminate,
    /// By closing its connection in any state.
    Vanish,
}

/// A sequence before and after which the server is outside a transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    pub(super) bursts: Vec<Burst>,
}

/// Messages that are written at once.
#[derive(Debug, Clone)]
pub(super) struct Burst {
    pub(super) messages: Vec<Message>,
    pub(super) cut: Cut,
    pub(super) then: Then,
}

/// How the bytes of a burst are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Whole,
    /// In pieces whose borders are drawn from this seed.
    Pieces(u64),
    Bytes,
}

/// What the client does after a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It reads until the server waits for more.
    Wait,
    /// It goes on writing.
    GoOn,
}

/// One message, in the notation of the scripts and in bytes.
#[derive(Debug, Clone)]
pub(super) struct Message {
    words: Vec<String>,
    bytes: Vec<u8>,
}

impl Message {
    /// A message such as `["Query", "select 1"]`.
    pub(super) fn new(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        let bytes = encode(Sender::Client, &words).unwrap_or_else(|reason| panic!("{words:?}: {reason}"));
        Self { words, bytes }
    }

    /// A message for which the scripts have no name.
    pub(super) fn raw(bytes: Vec<u8>) -> Self {
        let words = ["hex".to_string()].into_iter().chain(bytes.iter().map(|byte| format!("{byte:02x}"))).collect();
        Self { words, bytes }
    }

    pub(super) fn kind(&self) -> u8 {
        self.bytes[0]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The message as its receiver sees it.
    pub(super) fn frame(&self) -> Frame {
        Frame { tag: self.bytes[0], body: self.bytes[5..].to_vec() }
    }

    /// The notation of a script, unabridged.
    fn text(&self) -> String {
        self.words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }
}

impl Burst {
    /// One write, after which the client waits.
    pub(super) fn new(messages: Vec<Message>) -> Self {
        Self { messages, cut: Cut::Whole, then: Then::Wait }
    }

    /// The bytes in the pieces in which they are written.
    pub(super) fn pieces(&self) -> Vec<Vec<u8>> {
        let bytes: Vec<u8> = self.messages.iter().flat_map(|message| message.bytes().iter().copied()).collect();
        let borders: BTreeSet<usize> = match self.cut {
            Cut::Whole => BTreeSet::new(),
            Cut::Bytes => (1..bytes.len()).collect(),
            Cut::Pieces(seed) => {
                let mut random = Random::new(seed);
                let count = 1 + random.below(CUTS_MAX);
                (0..count).map(|_| 1 + random.below(bytes.len() as u64) as usize).collect()
            }
        };
        let mut pieces = Vec::new();
        let mut from = 0;
        for border in borders.into_iter().filter(|border| *border < bytes.len()).chain([bytes.len()]) {
            pieces.push(bytes[from..border].to_vec());
            from = border;
        }
        pieces
    }
}

impl Program {
    /// All bursts in order, each with the number of its unit.
    pub(super) fn bursts(&self) -> impl Iterator<Item = (usize, &Burst)> {
        self.units.iter().enumerate().flat_map(|(number, unit)| unit.bursts.iter().map(move |burst| (number, burst)))
    }

    /// How many messages it has.
    pub(super) fn size(&self) -> usize {
        self.bursts().map(|(_, burst)| burst.messages.len()).sum()
    }

    /// A program of the same client that sends nothing and so does not interfere.
    pub(super) fn silent(&self) -> Self {
        Self { startup: Vec::new(), units: Vec::new(), ending: Ending::Terminate, ..self.clone() }
    }

    /// The lines of a script; `answers` are inserted after each burst that waits.
    pub(super) fn script(&self, answers: &[String]) -> String {
        let startup: String = self.startup.iter().map(|(name, value)| format!(" {name}={}", quote(value))).collect();
        let mut text = format!("client c logs in user=u database=d{startup}\n");
        if self.hurry == Hurry::Yes {
            text.push_str("# what comes next is sent along with the startup packet\n");
        }
        let mut answers = answers.iter();
        for (_, burst) in self.bursts() {
            let messages: Vec<_> = burst.messages.iter().map(Message::text).collect();
            let cut = match burst.cut {
                Cut::Bytes => "slowly ",
                Cut::Whole | Cut::Pieces(_) => "",
            };
            let _ = writeln!(text, "c > {cut}{}", messages.join(", "));
            if let Cut::Pieces(seed) = burst.cut {
                let borders: Vec<_> = burst.pieces().iter().map(Vec::len).collect();
                let _ = writeln!(text, "# in pieces of {borders:?} bytes (cut {seed})");
            }
            if burst.then == Then::Wait
                && let Some(answer) = answers.next().filter(|answer| !answer.is_empty())
            {
                let _ = writeln!(text, "c < {answer}");
            }
        }
        text.push_str(match self.ending {
            Ending::Terminate => "c > Terminate\n",
            Ending::Vanish => "c closes\n",
        });
        text
    }
}

/// A word in the notation of a script; a run of one character is abbreviated.
fn quote(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.-=/".contains(c));
    if is_plain && word.len() < 100 {
        return word.to_string();
    }
    match word.chars().next() {
        Some(first) if word.len() > 20 && word.chars().all(|c| c == first) => {
            format!("\"{first}\"*{}", word.chars().count())
        }
        _ => {
            let inner = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\0', "\\0");
            format!("\"{inner}\"")
        }
    }
}

/// The largest number of cuts in a burst.
const CUTS_MAX: u64 = 8;
