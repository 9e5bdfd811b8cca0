//! The small language of the simulated applications and servers. Every statement carries its nonce.
//!
//! Always true: what is written can be read back; any other text is the pooler's own.
//! Not here: what a statement does (`postgres`), when applications send it (`app`).

use std::fmt;

/// The application, and the number of its statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Nonce {
    pub(crate) app: u32,
    pub(crate) number: u32,
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.app, self.number)
    }
}

impl Nonce {
    /// Reads a nonce from the beginning of a text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let word = text.split([' ', ';']).next()?;
        let (app, number) = word.split_once('.')?;
        Some(Self { app: app.parse().ok()?, number: number.parse().ok()? })
    }

    /// Returns whether this is a mark or statement that the pooler cannot restore on another server: servers accept the
    /// mark only from MARK, and the statement only from its author's PREPARE.
    pub(crate) fn is_refused_elsewhere(self) -> bool {
        self.number % 40 == 7
    }
}

/// What a statement does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// Returns so many rows, each with so many bytes beside its nonce.
    Rows {
        rows: u32,
        size: u32,
    },
    /// Writes a row.
    Write,
    /// Fails.
    Fail,
    Begin,
    Commit,
    Rollback,
    /// Runs for this time, unless it is cancelled.
    Sleep {
        millis: u32,
    },
    /// The same, by a query that the pooler reads as one without effect on the session.
    Last {
        millis: u32,
    },
    /// COPY FROM STDIN; a bad one fails at the first row.
    CopyIn {
        is_bad: bool,
    },
    /// COPY TO STDOUT.
    CopyOut {
        rows: u32,
        size: u32,
    },
    /// Sends a `NoticeResponse`.
    Notice,
    /// Sets TimeZone.
    Zone {
        value: String,
    },
    /// Leaves something behind in the session.
    Dirty,
    /// Sets `app.mark`, which is not reported, in a way that follows its client.
    Mark,
    /// Resets it to its value at the beginning of the session.
    Unmark,
    /// Takes a session-level advisory lock.
    Hold,
    /// Releases it.
    Free,
    /// Listens to a channel.
    Listen {
        channel: String,
    },
    /// The same as a plain LISTEN, outside of transactions: no server has to execute it if the session for all listens
    /// to the channel.
    Join {
        channel: String,
    },
    /// Stops listening to a channel, or to all.
    Unlisten {
        channel: Option<String>,
    },
    /// Sends a notification with this payload.
    Notify {
        channel: String,
        payload: Nonce,
    },
    /// Drops all prepared statements.
    DropAll {
        is_discard: bool,
    },
    /// Prepares a statement by SQL.
    Prepare(Prepared),
    /// Executes it.
    Execute {
        name: String,
    },
    /// Drops it, or all.
    Deallocate {
        name: Option<String>,
    },
    /// COPY BOTH: sends rows for so long and reads so many messages of its client; then the server or the client ends
    /// it.
    Stream {
        rows: u32,
        size: u32,
        millis: u32,
        words: u32,
        is_ended_by_server: bool,
    },
}

/// A statement prepared by SQL: it returns so many rows that carry its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Prepared {
    /// The name as it stands in the text, with its quotes.
    pub(crate) name: String,
    /// The nonce of the PREPARE, or `EVERYBODY` where many applications prepare the same text.
    pub(crate) key: Nonce,
    pub(crate) rows: u32,
}

impl Prepared {
    /// Reads a plain PREPARE, as the pooler may send it to any server.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (name, rest) = text.strip_prefix("PREPARE ")?.split_once(" AS SELECT k=")?;
        let (key, rows) = rest.split_once(" rows=")?;
        Some(Self { name: name.to_owned(), key: Nonce::read(key)?, rows: rows.parse().ok()? })
    }
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, key, rows } = self;
        write!(f, "PREPARE {name} AS SELECT k={key} rows={rows}")
    }
}

/// The beginning of a comment with a trace context; it follows the statement without a blank.
const TRACED: &str = "/*traceparent='";
/// The application number of statements that many prepare.
pub(crate) const EVERYBODY: u32 = u32::MAX;

/// Returns the name without its quotes.
pub(crate) fn unquoted(name: &str) -> &str {
    name.trim_matches('"')
}

/// Splits the `tz` of a statement into the TimeZone and the mark, if there is one.
pub(crate) fn zone_and_mark(text: &str) -> (&str, &str) {
    text.split_once('@').unwrap_or((text, ""))
}

/// A statement, and what its author believes of the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    pub(crate) nonce: Nonce,
    /// The TimeZone that must be in force, and the mark; see [`zone_and_mark`].
    pub(crate) zone: Box<str>,
    pub(crate) verb: Verb,
    /// A comment behind it carries a trace context.
    pub(crate) is_traced: bool,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)?;
        if self.is_traced {
            let Nonce { app, number } = self.nonce;
            write!(f, "{TRACED}00-{app:016x}{number:016x}-00f067aa0ba902b7-01'*/")?;
        }
        Ok(())
    }
}

impl Statement {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nonce, zone, verb, .. } = self;
        match verb {
            // The pooler reads this one as leaving nothing behind, and cannot tell for most others.
            Verb::Rows { rows, size } => write!(f, "SELECT n={nonce} tz={zone} rows={rows} size={size}"),
            Verb::Write => write!(f, "INSERT n={nonce} tz={zone}"),
            Verb::Fail => write!(f, "FAIL n={nonce} tz={zone}"),
            Verb::Begin => write!(f, "BEGIN n={nonce} tz={zone}"),
            Verb::Commit => write!(f, "COMMIT n={nonce} tz={zone}"),
            Verb::Rollback => write!(f, "ROLLBACK n={nonce} tz={zone}"),
            Verb::Sleep { millis } => write!(f, "SLEEP n={nonce} tz={zone} ms={millis}"),
            Verb::Last { millis } => write!(f, "SELECT n={nonce} tz={zone} ms={millis}"),
            Verb::CopyIn { is_bad } => write!(f, "COPY n={nonce} tz={zone} bad={}", u8::from(*is_bad)),
            Verb::CopyOut { rows, size } => write!(f, "TABLE n={nonce} tz={zone} rows={rows} size={size}"),
            Verb::Notice => write!(f, "NOTICE n={nonce} tz={zone}"),
            Verb::Zone { value } => write!(f, "ZONE n={nonce} tz={zone} value={value}"),
            Verb::Dirty => write!(f, "DIRTY n={nonce} tz={zone}"),
            Verb::Mark => write!(f, "MARK n={nonce} tz={zone} name='app.mark'"),
            Verb::Unmark => write!(f, "UNMARK n={nonce} tz={zone} name='app.mark'"),
            Verb::Hold => write!(f, "HOLD n={nonce} tz={zone}"),
            Verb::Free => write!(f, "FREE n={nonce} tz={zone}"),
            // The pooler reads these with their meaning in PostgreSQL.
            Verb::Listen { channel } => write!(f, "LISTEN {channel} n={nonce} tz={zone}"),
            Verb::Join { channel } => write!(f, "LISTEN {channel} /* n={nonce} tz={zone} */"),
            Verb::Unlisten { channel } => {
                let channel = channel.as_deref().unwrap_or("*");
                write!(f, "UNLISTEN {channel} n={nonce} tz={zone}")
            }
            Verb::Notify { channel, payload } => write!(f, "NOTIFY {channel} n={nonce} tz={zone} payload={payload}"),
            Verb::DropAll { is_discard: true } => write!(f, "DISCARD ALL n={nonce} tz={zone}"),
            Verb::DropAll { is_discard: false } => write!(f, "DEALLOCATEALL n={nonce} tz={zone}"),
            // The prepared text must not contain the nonce and the beliefs of the statement, so these stand in a
            // comment.
            Verb::Prepare(prepared) => write!(f, "{prepared} /* n={nonce} tz={zone} */"),
            Verb::Execute { name } => write!(f, "EXECUTE {name} /* n={nonce} tz={zone} */"),
            Verb::Deallocate { name } => {
                write!(f, "DEALLOCATE {} /* n={nonce} tz={zone} */", name.as_deref().unwrap_or("ALL"))
            }
            Verb::Stream { rows, size, millis, words, is_ended_by_server } => {
                let first = u8::from(*is_ended_by_server);
                write!(f, "STREAM n={nonce} tz={zone} rows={rows} size={size} ms={millis} words={words} first={first}")
            }
        }
    }
}

impl Statement {
    /// Returns the command tag where the pooler reads it, in a failed transaction or in any other; all other statements
    /// are answered with a tag that contains the nonce.
    pub(crate) fn tag(&self, is_failed: bool) -> Option<&'static str> {
        match self.verb {
            Verb::Commit if !is_failed => None,
            Verb::Commit | Verb::Rollback => Some("ROLLBACK"),
            Verb::Write => Some(WRITTEN),
            Verb::Unlisten { .. } => Some("UNLISTEN"),
            Verb::Join { .. } => Some(JOINED),
            Verb::DropAll { is_discard } => Some(drop_tag(is_discard)),
            Verb::Deallocate { name: None } => Some(drop_tag(false)),
            _ => None,
        }
    }

    /// Reads a statement; `None` if it is not of this language.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some((text, _)) = text.split_once(TRACED) {
            return Self::read(text).map(|statement| Self { is_traced: true, ..statement });
        }
        if let Some((sql, belief)) = text.split_once(" /* ") {
            return Self::read_commented(sql, belief);
        }
        let mut words = text.split(' ');
        let verb = words.next()?;
        let whose = if TAKES_A_NAME.contains(&verb) { words.next()? } else { "" };
        let (mut nonce, mut zone, mut rows, mut size, mut millis, mut is_bad, mut value) =
            (None, "", 0, 0, 0, false, "");
        let (mut said, mut is_first, mut payload) = (0, false, None);
        for word in words {
            let (key, text) = word.split_once('=')?;
            match key {
                "n" => nonce = Some(Nonce::read(text)?),
                "tz" => zone = text,
                "rows" => rows = text.parse().ok()?,
                "size" => size = text.parse().ok()?,
                "ms" => millis = text.parse().ok()?,
                "bad" => is_bad = text == "1",
                "value" => value = text,
                "words" => said = text.parse().ok()?,
                "first" => is_first = text == "1",
                "payload" => payload = Some(Nonce::read(text)?),
                "name" => {}
                _ => return None,
            }
        }
        let verb = match verb {
            "SELECT" if millis > 0 => Verb::Last { millis },
            "SELECT" => Verb::Rows { rows, size },
            "INSERT" => Verb::Write,
            "FAIL" => Verb::Fail,
            "BEGIN" => Verb::Begin,
            "COMMIT" => Verb::Commit,
            "ROLLBACK" => Verb::Rollback,
            "SLEEP" => Verb::Sleep { millis },
            "COPY" => Verb::CopyIn { is_bad },
            "TABLE" => Verb::CopyOut { rows, size },
            "NOTICE" => Verb::Notice,
            "ZONE" => Verb::Zone { value: value.to_owned() },
            "DIRTY" => Verb::Dirty,
            "MARK" => Verb::Mark,
            "UNMARK" => Verb::Unmark,
            "HOLD" => Verb::Hold,
            "FREE" => Verb::Free,
            "LISTEN" => Verb::Listen { channel: whose.to_owned() },
            "UNLISTEN" => Verb::Unlisten { channel: (whose != "*").then(|| whose.to_owned()) },
            "NOTIFY" => Verb::Notify { channel: whose.to_owned(), payload: payload? },
            "DISCARD" if whose == "ALL" => Verb::DropAll { is_discard: true },
            "STREAM" => Verb::Stream { rows, size, millis, words: said, is_ended_by_server: is_first },
            "DEALLOCATEALL" => Verb::DropAll { is_discard: false },
            _ => return None,
        };
        Some(Self { nonce: nonce?, zone: zone.into(), verb, is_traced: false })
    }

    /// The same where nonce and beliefs stand in a comment.
    fn read_commented(sql: &str, belief: &str) -> Option<Self> {
        let (nonce, zone) = belief.strip_suffix(" */")?.strip_prefix("n=")?.split_once(" tz=")?;
        let verb = match sql.split_once(' ')? {
            ("LISTEN", channel) => Verb::Join { channel: channel.to_owned() },
            ("EXECUTE", name) => Verb::Execute { name: name.to_owned() },
            ("DEALLOCATE", name) => Verb::Deallocate { name: (name != "ALL").then(|| name.to_owned()) },
            _ => Verb::Prepare(Prepared::read(sql)?),
        };
        Some(Self { nonce: Nonce::read(nonce)?, zone: zone.into(), verb, is_traced: false })
    }
}

/// The command tag of a write.
pub(crate) const WRITTEN: &str = "INSERT 0 1";
/// The command tag of a plain LISTEN.
pub(crate) const JOINED: &str = "LISTEN";

/// Verbs followed by a name.
const TAKES_A_NAME: [&str; 4] = ["LISTEN", "UNLISTEN", "NOTIFY", "DISCARD"];

/// A text that several applications prepare: it returns so many rows of so many bytes.
pub(crate) fn named_text(rows: u32) -> String {
    format!("NAMED rows={rows}")
}

/// The number of rows of such a text.
pub(crate) fn named_rows(text: &str) -> Option<u32> {
    text.strip_prefix("NAMED rows=")?.parse().ok()
}

/// The command tag of a statement that drops all prepared statements.
pub(crate) fn drop_tag(is_discard: bool) -> &'static str {
    if is_discard { "DISCARD ALL" } else { "DEALLOCATE ALL" }
}

/// Returns the nonce of the first statement in these bytes.
pub(crate) fn first_nonce(bytes: &[u8]) -> Option<Nonce> {
    let at = bytes.windows(3).position(|window| window == b" n=")? + 3;
    let end = bytes[at..].iter().position(|&byte| byte == b' ')? + at;
    Nonce::read(std::str::from_utf8(&bytes[at..end]).ok()?)
}

/// The text of a row: the nonce of the request, and which of how many rows it is.
pub(crate) fn row_text(nonce: Nonce, at: u32, of: u32, size: u32) -> String {
    let mut text = String::with_capacity(48 + size as usize);
    // This is the most frequent operation of the simulation, so it does not use `format!`.
    for (number, behind) in [(nonce.app, '.'), (nonce.number, ' '), (at, '/'), (of, ' ')] {
        push_number(&mut text, number);
        text.push(behind);
    }
    let mut missing = size as usize;
    while missing > 0 {
        let part = &FILLING[..missing.min(FILLING.len())];
        text.push_str(part);
        missing -= part.len();
    }
    text
}

/// Fills rows up to their size.
const FILLING: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

fn push_number(text: &mut String, number: u32) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_back() {
        let verbs = [
            Verb::Rows { rows: 3, size: 9 },
            Verb::Write,
            Verb::Fail,
            Verb::Begin,
            Verb::Commit,
            Verb::Rollback,
            Verb::Sleep { millis: 5 },
            Verb::Last { millis: 5 },
            Verb::CopyIn { is_bad: true },
            Verb::CopyOut { rows: 1, size: 2 },
            Verb::Notice,
            Verb::Zone { value: "UTC".to_owned() },
            Verb::Dirty,
            Verb::Mark,
            Verb::Unmark,
            Verb::Hold,
            Verb::Free,
            Verb::Listen { channel: "a".to_owned() },
            Verb::Join { channel: "a".to_owned() },
            Verb::Unlisten { channel: Some("a".to_owned()) },
            Verb::Unlisten { channel: None },
            Verb::Notify { channel: "a".to_owned(), payload: Nonce { app: 1, number: 2 } },
            Verb::DropAll { is_discard: true },
            Verb::DropAll { is_discard: false },
            Verb::Prepare(Prepared { name: "\"A\"".to_owned(), key: Nonce { app: 1, number: 2 }, rows: 3 }),
            Verb::Execute { name: "a".to_owned() },
            Verb::Deallocate { name: Some("a".to_owned()) },
            Verb::Deallocate { name: None },
            Verb::Stream { rows: 3, size: 9, millis: 7, words: 2, is_ended_by_server: true },
        ];
        for verb in verbs {
            for is_traced in [false, true] {
                let (nonce, zone, verb) = (Nonce { app: 4, number: 7 }, "UTC".into(), verb.clone());
                let statement = Statement { nonce, zone, verb, is_traced };
                assert_eq!(Statement::read(&statement.to_string()), Some(statement));
            }
        }
    }

    #[test]
    fn the_poolers_own_words_are_not_of_this_language() {
        for text in [
            "ROLLBACK",
            "DISCARD ALL",
            "select 1",
            "PREPARE a AS SELECT k=1.2 rows=3",
            "DEALLOCATE \"a\"",
            "SET TimeZone='UTC';",
            "",
        ] {
            assert_eq!(Statement::read(text), None, "{text}");
        }
    }
}
