//! The console: any text that a client sends to it.
//!
//! Input: the right of the client, and the text.
//!
//! Always true: there is exactly one answer, of whole messages and ended by ReadyForQuery, except for an immediate
//! shutdown; a text is a command or none as in a second parser, written for clarity; the form of a command (blanks,
//! quotes) does not change its answer.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, RwLock};

use base::{Key, Time, Wall, WorkerId};
use config::{Overrides, Settings};
use control::{Clocks, Control, Event, FileReader, Source, first_config};
use reactor::LogTarget;
use wire::Request;
use wire::notice::Notice;
use worker::letters::{ActiveConfig, Post, Right, Snapshot, ToControl, ToWorker, Totals};

use crate::Target;
use crate::draw::Draw;
use crate::model::messages;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "console",
    run,
    words: &[
        b"SHOW ",
        b"pools",
        b"stats",
        b"HELP",
        b"databases",
        b"SET ",
        b"to ",
        b" = ",
        b"'",
        b"''",
        b"\"",
        b"\"\"",
        b";",
        b"\t",
        b"\r\n",
        b"RELOAD",
        b"SHUTDOWN",
        b"WAIT_FOR_CLIENTS",
        b"PAUSE ",
        b"TRACE ",
        b"client ",
        b"C-0x1",
        b"application ",
        b" for ",
        b"-",
        b"+1",
        b"timezone",
        b"select ",
        b"KILL",
        b"\0",
        b"xxxxxxxxxxxxxxxx",
    ],
    bytes_max: 400,
};

/// Sends the text.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let right = draw.pick(&[Right::Admin, Right::Stats]);
    let text = String::from_utf8_lossy(draw.rest()).into_owned();
    let answer = says(&text, right);
    let told = answer.as_deref().and_then(error);
    match command(&text) {
        Err(_) if may_be_timed_pause(&text) => {}
        Err(Misread::Shape) => assert_eq!(told, Some(invalid(&text))),
        Err(Misread::TooLong) => assert_eq!(told.as_deref(), Some("bad arguments")),
        Ok(command) => {
            assert_ne!(told.as_deref(), Some("bad arguments"));
            let plain = command.dressed_plainly();
            let plainly = says(&plain, right);
            match told {
                Some(told) if told == invalid(&text) => {
                    assert_eq!(plainly.as_deref().and_then(error), Some(invalid(&plain)));
                }
                _ => assert!(plainly == answer, "another answer to {plain:?}"),
            }
        }
    }
}

/// Whether this may be a `PAUSE` with `FOR`, behind which everything is read as one text.
fn may_be_timed_pause(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    (lower.starts_with("pause") || lower.starts_with("\"pause\"")) && lower.contains("for")
}

/// The error for an unknown command.
fn invalid(text: &str) -> String {
    format!("invalid command '{text}', use SHOW HELP;").replace('\0', "")
}

/// Returns the message of the error in an answer, if it is one.
fn error(answer: &[u8]) -> Option<String> {
    let (_, body) = messages(answer).into_iter().find(|(kind, _)| *kind == b'E')?;
    Some(Notice::parse(body).message)
}

/// Returns the answer to a text; None after an immediate shutdown.
fn says(text: &str, right: Right) -> Option<Vec<u8>> {
    let letters: Arc<Mutex<Vec<ToWorker<()>>>> = Arc::default();
    let post: Post<ToWorker<()>> = {
        let letters = Arc::clone(&letters);
        Arc::new(move |letter| letters.lock().expect("nobody panics here").push(letter))
    };
    let mut now = Clocks { time: Time::from_secs(100), wall: Wall(0) };
    let nowhere = Path::new("/nonexistent/t.ini").display().to_string();
    let nowhere = Source::new(nowhere, Overrides::default(), FileReader::from_disk());
    let speaker = Arc::new(RwLock::new(Arc::clone(&FORCE.log)));
    let mut control = Control::new(nowhere, Arc::clone(&FORCE), speaker, Vec::new(), vec![post], now);
    let console = ToControl::Console {
        from: WorkerId(0),
        client: CLIENT,
        right,
        by: Box::default(),
        request: Request::Query(text.to_owned()),
    };
    control.handle(now, Event::Letter(console));
    let mut answer = None;
    loop {
        let come = std::mem::take(&mut *letters.lock().expect("nobody panics here"));
        if come.is_empty() {
            let is_traced = answer.is_none() && !control.is_over() && now.time < TRACES_ARE_OVER;
            if !is_traced {
                break;
            }
            // A trace is answered when its time is over.
            now.time = TRACES_ARE_OVER;
            control.handle(now, Event::Tick);
        }
        for letter in come {
            match letter {
                ToWorker::Show { question, .. } => {
                    let snapshot = Box::new(snapshot());
                    control.handle(now, Event::Letter(ToControl::Shown { from: WorkerId(0), question, snapshot }));
                }
                ToWorker::Order { question, .. } => {
                    let obeyed = ToControl::Obeyed { from: WorkerId(0), question, is_done: true };
                    control.handle(now, Event::Letter(obeyed));
                }
                ToWorker::ConsoleAnswer { bytes, .. } => {
                    assert!(answer.is_none(), "a second answer");
                    answer = Some(bytes);
                }
                ToWorker::ConsolePart { bytes, .. } => {
                    assert!(messages(&bytes).iter().all(|(kind, _)| *kind == b'N'), "a part is of notices");
                }
                _ => {}
            }
        }
    }
    let Some(bytes) = &answer else {
        assert!(control.is_over(), "no answer");
        return None;
    };
    let told = messages(bytes);
    assert_eq!(told.last(), Some(&(b'Z', &b"I"[..])));
    assert_eq!(told.iter().filter(|(kind, _)| matches!(kind, b'E' | b'C')).count(), 1, "one outcome");
    answer
}

/// A snapshot with databases of odd names.
fn snapshot() -> Snapshot {
    let stats = ["d", "", "it's \"\0\u{1b}", "k\u{e4}se"].map(|name| (name.into(), Totals::default()));
    Snapshot { stats: stats.to_vec(), ..Snapshot::default() }
}

/// A command, as in the grammar.
#[derive(Debug)]
enum Command {
    Words(Vec<String>),
    Set(String, String),
    Trace { kind: String, name: String, lasts: Vec<String> },
}

#[derive(Debug)]
enum Misread {
    Shape,
    TooLong,
}

impl Command {
    /// The same command with quotes wherever they are allowed, and single blanks.
    fn dressed_plainly(&self) -> String {
        let quoted =
            |text: &String, quote: char| format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")));
        match self {
            Self::Words(words) => words.iter().map(|word| quoted(word, '"')).collect::<Vec<_>>().join(" "),
            Self::Set(key, value) => format!("SET {} = {};", quoted(key, '"'), quoted(value, '\'')),
            Self::Trace { kind, name, lasts } => {
                let lasts = lasts.iter().map(|word| format!(" {}", quoted(word, '"'))).collect::<String>();
                format!(
                    "TRACE {} {}{}{lasts}",
                    quoted(kind, '"'),
                    quoted(name, '\''),
                    if lasts.is_empty() { "" } else { " FOR" }
                )
            }
        }
    }
}

/// A part of a command. [`tokens`] also returns whether a blank stands before it.
#[derive(PartialEq, Eq, Debug)]
enum Token {
    Word(String),
    Text(String),
    /// A client as the log names it.
    Client(String),
    /// A whole number with a sign.
    Signed(String),
    Sign(char),
}

/// Reads a command by its tokens.
fn command(text: &str) -> Result<Command, Misread> {
    use Token::{Client, Sign, Signed, Text, Word};
    let mut tokens = tokens(text).ok_or(Misread::Shape)?;
    if matches!(tokens.last(), Some((_, Sign(';')))) {
        tokens.pop();
    }
    // A key of a section has a name of two words, without blanks beside the dot.
    if let [_, (_, Word(section)), (false, Sign('.')), (false, Word(name)), _, _] = &tokens[..] {
        let key = (true, Word(format!("{section}.{name}")));
        tokens.splice(1..4, [key]);
    }
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    let (command, fits) = match &tokens[..] {
        [(_, Word(verb))] => (Command::Words(vec![verb.clone()]), verb.len() < 16),
        [(_, Word(verb)), (true, Word(object) | Client(object))] => {
            (Command::Words(vec![verb.clone(), object.clone()]), verb.len() < 16 && object.len() < 64)
        }
        [(_, Word(verb)), (true, Word(key)), (_, sign), (_, Word(value) | Text(value) | Signed(value))]
            if is(verb, "set") && (*sign == Sign('=') || matches!(sign, Word(to) if is(to, "to"))) =>
        {
            (Command::Set(key.clone(), value.clone()), key.len() < 64 && value.len() < 256)
        }
        [(_, Word(verb)), (true, Word(kind)), (true, Word(name) | Text(name) | Client(name)), lasts @ ..]
            if is(verb, "trace") =>
        {
            let lasts: Vec<String> = match lasts {
                [] => Vec::new(),
                [(true, Word(word)), (true, Word(count))] if is(word, "for") => vec![count.clone()],
                [(true, Word(word)), (true, Word(count)), (_, Word(unit))] if is(word, "for") => {
                    vec![count.clone(), unit.clone()]
                }
                _ => return Err(Misread::Shape),
            };
            (Command::Trace { kind: kind.clone(), name: name.clone(), lasts }, name.len() < 256)
        }
        _ => return Err(Misread::Shape),
    };
    if fits { Ok(command) } else { Err(Misread::TooLong) }
}

/// Returns all tokens; None where a quoted text does not end or another character stands.
fn tokens(text: &str) -> Option<Vec<(bool, Token)>> {
    let mut found = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        let mut gap = false;
        while characters.next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r')).is_some() {
            gap = true;
        }
        let Some(first) = characters.next() else { return Some(found) };
        let token = match first {
            ';' | '=' | '.' => Token::Sign(first),
            '"' | '\'' => {
                let mut inner = String::new();
                loop {
                    match characters.next()? {
                        c if c == first && characters.next_if_eq(&first).is_none() => break,
                        c => inner.push(c),
                    }
                }
                if first == '"' { Token::Word(inner) } else { Token::Text(inner) }
            }
            // A value may be a number with a sign, which means the same as in quotes; a plus is dropped.
            '-' | '+' => {
                while characters.next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r')).is_some() {}
                let mut number = String::new();
                while let Some(c) = characters.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    number.push(c);
                }
                if number.is_empty() || !number.bytes().all(|c| c.is_ascii_digit()) {
                    return None;
                }
                Token::Signed(if first == '-' { format!("-{number}") } else { number })
            }
            c if c.is_ascii_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = characters.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                match characters.peek() {
                    Some('-') if word.eq_ignore_ascii_case("c") => {
                        characters.next();
                        let mut number = String::from("C-");
                        while let Some(c) = characters.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                            number.push(c);
                        }
                        if number == "C-" {
                            return None;
                        }
                        Token::Client(number)
                    }
                    _ => Token::Word(word),
                }
            }
            _ => return None,
        };
        found.push((gap, token));
    }
}

static FORCE: LazyLock<Arc<ActiveConfig>> = LazyLock::new(|| {
    let settings = Settings { log_stats: false, ..Settings::default() };
    let log = Arc::new(LogTarget::new(false, None));
    Arc::new(first_config(settings, control::Files::default(), log, 1, [0; 32], 1))
});
/// The time when every trace has ended: an hour after the beginning.
const TRACES_ARE_OVER: Time = Time::from_secs(3_700);
const CLIENT: Key = Key::first(1);
