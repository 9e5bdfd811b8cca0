//! Reads and plays the scripts of `tests/talk`. The language is described in `tests/talk/README.md`.
//!
//! Always true: a script ends, at the latest when an expectation times out; a failure is reported with its line.
//! Not here: the notation of messages (`notation`).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use crate::client::read_key;
use crate::message;
use crate::notation::{Sender, decode, encode, fits, show};
use crate::peer::{Lost, Peer};
use crate::place::Place;
use crate::pooler::{Ini, Pooler};
use crate::wait::{LIMIT, try_wait_for};

/// A script, read but not played.
#[derive(Debug)]
pub struct Script {
    databases: Vec<String>,
    settings: Vec<String>,
    lines: Vec<(usize, String)>,
}

impl Script {
    /// Reads a script: settings first (lines that begin with `ini` or `database`), then the actions.
    pub fn read(text: &str) -> Self {
        let mut script = Self { databases: Vec::new(), settings: Vec::new(), lines: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            match line.split_once(' ') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some(("ini", setting)) => script.settings.push(setting.to_string()),
                Some(("database", entry)) => script.databases.push(entry.to_string()),
                _ => script.lines.push((number + 1, line.to_string())),
            }
        }
        script
    }

    /// Plays it around a new pooler, with additional settings.
    ///
    /// # Panics
    /// With the line that failed.
    pub fn play(&self, place: &Arc<Place>, more: &[String]) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the scripted servers");
        listener.set_nonblocking(true).expect("a listener can be polled");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let home = format!("host=127.0.0.1 port={port}");
        // Scripts contain the exact messages that servers receive.
        let mut ini = Ini::new(&format!("d = {home}"))
            .set("server_tls_sslmode = disable")
            .set("workers = 1")
            .set("session_state = pgbouncer");
        if !place.is_trunkline() {
            ini = Ini::new(&format!("d = {home}"));
        }
        for entry in &self.databases {
            ini = ini.database(&entry.replace("$server", &home));
        }
        for setting in self.settings.iter().chain(more) {
            ini = ini.set(setting);
        }
        let pooler = Pooler::start(place, &ini);
        let mut stage = Stage { pooler, listener, actors: BTreeMap::new() };
        for (number, line) in &self.lines {
            if let Err(reason) = stage.step(line) {
                panic!("line {number}: {line}\n  {reason}");
            }
        }
        assert!(stage.pooler.is_running(), "the pooler ended");
        drop(stage.actors);
        stage.pooler.console("SHOW VERSION");
    }
}

struct Stage {
    pooler: Pooler,
    listener: TcpListener,
    actors: BTreeMap<String, Actor>,
}

struct Actor {
    peer: Peer,
    me: Sender,
    key: (u32, Vec<u8>),
}

impl Stage {
    fn step(&mut self, line: &str) -> Result<(), String> {
        let messages = split(line)?;
        let words: Vec<&str> = messages[0].iter().map(String::as_str).collect();
        match words[..] {
            ["client", name, "opens"] => self.open_client(name).map(|_| ()),
            ["client", name, "opens", "from", source] => {
                let source: Ipv4Addr = source.parse().map_err(|_| format!("{source} is no address"))?;
                self.add_client(name, Peer::tcp_from(source, self.pooler.address())).map(|_| ())
            }
            ["client", name, "connects", ..] => {
                let bytes = startup(&words[3..])?;
                self.open_client(name)?.peer.try_send(&bytes).map_err(|e| e.to_string())
            }
            ["client", name, "logs", "in", ..] => {
                let bytes = startup(&words[4..])?;
                let actor = self.open_client(name)?;
                actor.peer.try_send(&bytes).map_err(|e| e.to_string())?;
                actor.expect_welcome(&[])
            }
            ["server", name, "accepts"] => self.accept(name).map(|_| ()),
            ["server", name, "logs", "in", ..] => {
                let actor = self.accept(name)?;
                let packet = actor.peer.packet().map_err(|lost| lost.to_string())?;
                expect_words(&["Startup".to_string()], &packet_words(&packet))?;
                actor.send_welcome(&words[4..])
            }
            ["log", "has", text] => match self.pooler.log().contains(text) {
                true => Ok(()),
                false => Err("the log does not".to_string()),
            },
            ["log", "gets", text] => try_wait_for(LIMIT, || self.pooler.log().contains(text).then_some(()))
                .ok_or_else(|| "the log does not get it".to_string()),
            ["log", "gets", text, times, "times"] => {
                let times: usize = times.parse().map_err(|_| format!("{times:?} is not a number"))?;
                try_wait_for(LIMIT, || (self.pooler.log().matches(text).count() >= times).then_some(()))
                    .ok_or_else(|| "the log does not get it so often".to_string())
            }
            ["log", "lacks", text] => match self.pooler.log().contains(text) {
                true => Err("the log has it".to_string()),
                false => Ok(()),
            },
            [name, "cancels"] => self.cancel(name, 0),
            [name, "cancels", "with", "a", "stale", "key"] => self.cancel(name, 1),
            [name, "closes"] => self.actors.remove(name).map(|_| ()).ok_or_else(|| format!("there is no {name}")),
            [name, ">", ..] => {
                let mut messages = messages.clone();
                messages[0].drain(..2);
                self.actor(name)?.send(&messages)
            }
            [name, "<", ..] => {
                let mut messages = messages.clone();
                messages[0].drain(..2);
                let keys: BTreeMap<_, _> =
                    self.actors.iter().map(|(name, actor)| (name.clone(), actor.key.clone())).collect();
                self.actor(name)?.expect(&messages, &keys)
            }
            _ => Err("what does this mean?".to_string()),
        }
    }

    fn actor(&mut self, name: &str) -> Result<&mut Actor, String> {
        self.actors.get_mut(name).ok_or_else(|| format!("there is no {name}"))
    }

    fn open_client(&mut self, name: &str) -> Result<&mut Actor, String> {
        self.add_client(name, Peer::tcp(self.pooler.address()))
    }

    fn add_client(&mut self, name: &str, peer: std::io::Result<Peer>) -> Result<&mut Actor, String> {
        let peer = peer.map_err(|e| e.to_string())?;
        self.actors.insert(name.to_string(), Actor { peer, me: Sender::Client, key: (0, Vec::new()) });
        self.actor(name)
    }

    fn accept(&mut self, name: &str) -> Result<&mut Actor, String> {
        let peer = Peer::accept(&self.listener).map_err(|e| format!("{e} to the server"))?;
        let number = u32::try_from(self.actors.len()).unwrap_or(0) + 1;
        let key = (4000 + number, vec![number as u8, 7, 7, 7]);
        self.actors.insert(name.to_string(), Actor { peer, me: Sender::Server, key });
        self.actor(name)
    }

    fn cancel(&mut self, name: &str, change: u8) -> Result<(), String> {
        let (pid, mut secret) = self.actor(name)?.key.clone();
        if let Some(last) = secret.last_mut() {
            *last ^= change;
        }
        let mut peer = Peer::tcp(self.pooler.address()).map_err(|e| e.to_string())?;
        peer.try_send(&message::cancel_request(pid, &secret)).map_err(|e| e.to_string())?;
        // A forwarded cancel request may keep the connection open until the server has closed its own; a dropped one ends it
        // now.
        match change {
            0 => {
                self.actors
                    .insert(format!("{name}'s cancel"), Actor { peer, me: Sender::Client, key: (0, Vec::new()) });
                Ok(())
            }
            _ => peer.closed_within(LIMIT),
        }
    }
}

impl Actor {
    fn send(&mut self, messages: &[Vec<String>]) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut slowly = false;
        for words in messages {
            let mut words = &words[..];
            if words[0] == "slowly" {
                slowly = true;
                words = &words[1..];
            }
            if words[0] == "welcome" {
                let parameters: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                bytes.extend(self.welcome(&parameters)?);
            } else {
                bytes.extend(encode(self.me, words)?);
            }
        }
        match slowly {
            true => self.peer.send_slowly(&bytes),
            false => self.peer.try_send(&bytes),
        }
        .map_err(|e| e.to_string())
    }

    fn send_welcome(&mut self, parameters: &[&str]) -> Result<(), String> {
        let bytes = self.welcome(parameters)?;
        self.peer.try_send(&bytes).map_err(|e| e.to_string())
    }

    fn welcome(&self, parameters: &[&str]) -> Result<Vec<u8>, String> {
        let mut values: BTreeMap<&str, &str> = PARAMETERS.into_iter().collect();
        values.extend(parameters.iter().filter_map(|pair| pair.split_once('=')));
        let mut bytes = message::frame(b'R', &[0; 4]);
        for (name, value) in values {
            bytes.extend(message::frame(b'S', &message::strings(&[name, value])));
        }
        bytes.extend(message::frame(b'K', &[&self.key.0.to_be_bytes()[..], &self.key.1].concat()));
        bytes.extend(message::frame(b'Z', b"I"));
        Ok(bytes)
    }

    fn expect(&mut self, messages: &[Vec<String>], keys: &BTreeMap<String, (u32, Vec<u8>)>) -> Result<(), String> {
        let mut skipping = false;
        for words in messages {
            match words[0].as_str() {
                "..." => {
                    skipping = true;
                    continue;
                }
                "closed" if skipping => match self.peer.is_closed_within(LIMIT) {
                    true => {}
                    false => return Err("expected the end: nothing came before the deadline".to_string()),
                },
                "closed" => self.peer.closed_within(LIMIT)?,
                "ended" => self.expect_end()?,
                "welcome" => self.expect_welcome(&words[1..])?,
                "Startup" | "SSLRequest" | "Cancel" => {
                    let packet = self.peer.packet().map_err(|lost| lost.to_string())?;
                    match keys.get(words.get(1).map_or("", String::as_str)).filter(|_| words[0] == "Cancel") {
                        Some((pid, secret)) => expect_cancel(&packet, *pid, secret)?,
                        None => expect_words(words, &packet_words(&packet))?,
                    }
                }
                "hex" => {
                    let want = encode(self.me, words)?;
                    let got = self.peer.bytes(want.len()).map_err(|lost| lost.to_string())?;
                    if want != got {
                        return Err(format!("got {got:02x?}"));
                    }
                }
                _ => loop {
                    let got = self.next_words().map_err(|lost| format!("{}: {lost}", show(words)))?;
                    match expect_words(words, &got) {
                        Err(_) if skipping => {}
                        Err(reason) => return Err(reason),
                        Ok(()) => break,
                    }
                },
            }
            skipping = false;
        }
        Ok(())
    }

    fn expect_welcome(&mut self, parameters: &[String]) -> Result<(), String> {
        expect_words(&["Authentication".into(), "0".into()], &self.next_words()?)?;
        let mut left = parameters.to_vec();
        loop {
            let frame = self.peer.frame().map_err(|lost| lost.to_string())?;
            let words = decode(Sender::Server, &frame);
            match words[0].as_str() {
                "ParameterStatus" => left.retain(|pair| *pair != format!("{}={}", words[1], words[2])),
                "KeyData" => self.key = read_key(&frame),
                "Ready" => break,
                _ => return Err(format!("got {}", show(&words))),
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("the welcome lacks {}", show(&left))),
        }
    }

    /// Expects the end of the connection: after a FATAL (for a client) or a Terminate (for a server), or without a message.
    fn expect_end(&mut self) -> Result<(), String> {
        let (other, last) = match self.me {
            Sender::Client => (Sender::Server, vec!["Error".to_string(), "FATAL".to_string()]),
            Sender::Server => (Sender::Client, vec!["Terminate".to_string()]),
        };
        match self.peer.frame() {
            Err(Lost::Closed) => Ok(()),
            Err(lost) => Err(lost.to_string()),
            Ok(frame) => {
                expect_words(&last, &decode(other, &frame))?;
                self.peer.closed_within(LIMIT)
            }
        }
    }

    fn next_words(&mut self) -> Result<Vec<String>, String> {
        let other = match self.me {
            Sender::Client => Sender::Server,
            Sender::Server => Sender::Client,
        };
        self.peer.frame().map(|frame| decode(other, &frame)).map_err(|lost| lost.to_string())
    }
}

fn startup(words: &[&str]) -> Result<Vec<u8>, String> {
    let mut minor = 0;
    let mut parameters = Vec::new();
    for word in words {
        match word.split_once('=').ok_or("a startup packet is made of name=value")? {
            ("protocol", version) => {
                minor =
                    version.strip_prefix("3.").and_then(|minor| minor.parse().ok()).ok_or("protocol=3.x is wanted")?;
            }
            pair => parameters.push(pair),
        }
    }
    Ok(message::startup(minor, &parameters))
}

fn packet_words(packet: &[u8]) -> Vec<String> {
    match packet.first_chunk::<4>().map(|code| u32::from_be_bytes(*code)) {
        Some(message::SSL_CODE) => vec!["SSLRequest".into()],
        Some(message::CANCEL_CODE) => vec!["Cancel".into()],
        Some(_) => {
            let strings = message::read_strings(&packet[4..], usize::MAX).0;
            let pairs = strings.chunks_exact(2).map(|pair| format!("{}={}", pair[0], pair[1]));
            std::iter::once("Startup".to_string()).chain(pairs).collect()
        }
        None => vec!["a packet without a version".into()],
    }
}

fn expect_cancel(packet: &[u8], pid: u32, secret: &[u8]) -> Result<(), String> {
    match message::packet(packet) == message::cancel_request(pid, secret) {
        true => Ok(()),
        false => Err(format!("got {packet:02x?}")),
    }
}

/// A Startup matches when it contains the given pairs; other messages are compared field by field.
fn expect_words(expected: &[String], got: &[String]) -> Result<(), String> {
    let fit = match expected[0].as_str() {
        "Startup" => got[0] == "Startup" && expected[1..].iter().all(|pair| got.contains(pair)),
        _ => fits(expected, got),
    };
    match fit {
        true => Ok(()),
        false => Err(format!("expected {}\n       got {}", show(expected), show(got))),
    }
}

/// Cuts a line into messages (at commas) and those into words (at blanks). A word in quotes may contain anything, with
/// `\n`, `\0`, `\"` and `\\`; `"x"*5` is `"xxxxx"`.
fn split(line: &str) -> Result<Vec<Vec<String>>, String> {
    let mut messages = vec![Vec::new()];
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        let message = messages.last_mut().ok_or("no message")?;
        match next {
            ' ' => {}
            ',' => messages.push(Vec::new()),
            '"' => {
                let mut word = String::new();
                loop {
                    match rest.next().ok_or("a quote is not closed")? {
                        '"' => break,
                        '\\' => word.push(match rest.next() {
                            Some('n') => '\n',
                            Some('0') => '\0',
                            Some(other) => other,
                            None => return Err("a quote is not closed".to_string()),
                        }),
                        other => word.push(other),
                    }
                }
                let mut times = String::new();
                if rest.next_if_eq(&'*').is_some() {
                    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                        times.push(digit);
                    }
                }
                message.push(word.repeat(times.parse().unwrap_or(1)));
            }
            first => {
                let mut word = String::from(first);
                while let Some(next) = rest.next_if(|next| !" ,\"".contains(*next)) {
                    word.push(next);
                }
                message.push(word);
            }
        }
    }
    match messages.iter().any(Vec::is_empty) {
        true => Err("an empty message".to_string()),
        false => Ok(messages),
    }
}

/// The parameters that a scripted server reports at login, unless the script has others.
const PARAMETERS: [(&str, &str); 8] = [
    ("server_version", "16.4"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];
