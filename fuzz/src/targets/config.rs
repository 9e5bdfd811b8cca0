//! Configuration files.
//!
//! Input: the text of the main file, `t.ini`; a line `--- a.ini` begins the file of that name.
//!
//! Always true: there are settings or mistakes; a mistake is one line that names a file that was read and a line of it;
//! settings that are written and read again are the same, and a reload with them changes nothing.

use std::collections::BTreeMap;
use std::io;

use config::{Loaded, Mistake, Overrides, Settings, load, load_over};

use crate::Target;
use crate::model::ini::{has_endless_times, written};

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "config",
    run,
    words: &[
        b"[pgbouncer]\n",
        b"[databases]\n",
        b"[users]\n",
        b"[peers]\n",
        b"[trunkline]\n",
        b"%include a.ini\n",
        b"%include t.ini\n",
        b"\n--- a.ini\n",
        b"pool_mode = transaction\n",
        b"pool_mode=statement ",
        b"auth_type = scram-sha-256\n",
        b"query_timeout = 0.5\n",
        b"query_wait_timeout=",
        b"server_lifetime=",
        b"listen_addr = *\n",
        b"* = host=a\n",
        b"host=",
        b"port=5432 ",
        b"password='it''s' ",
        b"dbname=",
        b"user=",
        b"\xef\xbb\xbf",
        b" = ",
        b"''",
        b"1e3",
        b"0x10",
        b"0777",
    ],
    bytes_max: 900,
};

/// Reads the files.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let files = Files::of(input);
    match files.load("t.ini") {
        Ok(loaded) => means_the_same_again(&files, &loaded),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            mistakes.iter().for_each(|mistake| files.has_place_of(mistake));
        }
    }
}

/// Files in memory.
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn of(input: &[u8]) -> Self {
        let mut files = BTreeMap::new();
        let (mut name, mut text) = ("t.ini".to_owned(), Vec::new());
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            match line.strip_prefix(b"--- ") {
                Some(next) => {
                    let next = String::from_utf8_lossy(next.trim_ascii()).into_owned();
                    files.insert(std::mem::replace(&mut name, next), std::mem::take(&mut text));
                }
                None => text.extend_from_slice(line),
            }
        }
        files.insert(name, text);
        Self(files)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn load(&self, name: &str) -> Result<Loaded, Vec<Mistake>> {
        load(name, &|name| self.read(name), &Overrides::default())
    }

    fn has_place_of(&self, mistake: &Mistake) {
        let line = mistake.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
        let text = self.0.get(&*mistake.place.file).expect("a mistake of a file that was read");
        if mistake.text == "main section missing from config file" {
            return;
        }
        let lines = text.split(|&byte| byte == b'\n').count();
        assert!((1..=lines).contains(&(mistake.place.line as usize)), "{line}: the file has {lines} lines");
        // The line number appears once: before the text, or in it where PgBouncer has it there.
        let places = [format!(":{}: ", mistake.place.line), format!(":{})", mistake.place.line)];
        assert!(places.iter().any(|place| line.contains(place.as_str())), "{line}");
    }
}

fn means_the_same_again(files: &Files, loaded: &Loaded) {
    let settings = &loaded.settings;
    assert!(loaded.warnings.iter().all(|warning| !warning.to_string().contains(char::is_control)));
    assert!(settings.databases.values().chain(&settings.fallback).all(|database| !database.hosts.is_empty()));

    let text = written(settings);
    let again = again(&text);
    assert_eq!(again.show(), settings.show());
    assert_eq!(written(&again), text);
    if !has_endless_times(settings) {
        assert_eq!(again.databases, settings.databases);
        assert_eq!(again.fallback, settings.fallback);
        assert_eq!(again.users, settings.users);
    }
    assert_eq!(again.peers, settings.peers);

    let reloaded = load_over(settings, "t.ini", &|name| files.read(name), &Overrides::default());
    let reloaded = reloaded.expect("the same files again");
    assert_eq!(reloaded.restart_needed, [""; 0]);
    assert_eq!(reloaded.settings, *settings);
    assert!(settings.databases.iter().all(|(name, old)| !reloaded.settings.databases[name].must_reconnect(old)));
    for name in files.0.keys() {
        if let Ok(over) = load_over(settings, name, &|name| files.read(name), &Overrides::default()) {
            assert_eq!(over.settings.restart_needed(settings), [""; 0], "a reload keeps what only a restart changes");
        }
    }
}

fn again(text: &str) -> Settings {
    let read = load("t.ini", &|_| Ok(text.as_bytes().to_vec()), &Overrides::default());
    match read {
        Ok(loaded) => loaded.settings,
        Err(mistakes) => panic!("refused when read again: {mistakes:?}\n{text}"),
    }
}
