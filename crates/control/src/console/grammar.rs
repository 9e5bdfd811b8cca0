//! The grammar of console commands: `WORD [WORD] [;]`, `SHOW WORD EXTENDED [;]`, `SET key[.key] =|TO value [;]`, `PAUSE|HOLD [WORD] FOR text
//! [;]`, `SWITCHOVER [WORD] TO member [;]` and `TRACE WORD name [FOR WORD [WORD]] [;]`.
//!
//! Always true: a text that is not exactly of this shape is no command. Case is kept, and the readers of the tree
//! compare without regard to case; quotes are removed.
//! Not here: which commands exist (`console`).

/// The syntax tree of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tree {
    /// A verb and an optional object.
    Words {
        /// The first word.
        verb: String,
        /// The second one.
        object: Option<String>,
    },
    /// `SHOW` of all columns of a table.
    Extended {
        /// The table.
        subject: String,
    },
    /// A setting and its value.
    Set {
        /// The setting.
        key: String,
        /// The value.
        value: String,
    },
    /// `PAUSE` or `HOLD` with `FOR`.
    Timed {
        /// The verb.
        verb: String,
        /// The database.
        object: Option<String>,
        /// All that follows `FOR`.
        lasts: String,
    },
    /// `SWITCHOVER` with a target.
    Switchover {
        /// The cluster.
        cluster: Option<String>,
        /// The member.
        to: String,
    },
    /// `TRACE` with a name.
    Trace {
        /// The kind of the name.
        kind: String,
        /// The name.
        name: String,
        /// What follows `FOR`: the duration and its unit.
        lasts: Option<(String, Option<String>)>,
    },
}

/// Why a text is no command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misread {
    /// Its syntax is wrong.
    Shape,
    /// A word is too long.
    TooLong,
}

/// Parses a whole query.
pub(crate) fn parse(text: &str) -> Result<Tree, Misread> {
    let reader = Reader { rest: text };
    let tree = reader
        .words()
        .or_else(|| reader.extended())
        .or_else(|| reader.set())
        .or_else(|| reader.timed())
        .or_else(|| reader.switchover())
        .or_else(|| reader.trace())
        .ok_or(Misread::Shape)?;
    let fits = match &tree {
        Tree::Words { verb, object } => {
            verb.len() < VERB_BYTES && object.as_ref().is_none_or(|object| object.len() < KEY_BYTES)
        }
        Tree::Extended { subject } => subject.len() < KEY_BYTES,
        Tree::Set { key, value } => key.len() < KEY_BYTES && value.len() < VALUE_BYTES,
        Tree::Switchover { cluster, to } => {
            cluster.as_ref().is_none_or(|cluster| cluster.len() < KEY_BYTES) && to.len() < VALUE_BYTES
        }
        Tree::Timed { object, lasts, .. } => {
            object.as_ref().is_none_or(|object| object.len() < KEY_BYTES) && lasts.len() < VALUE_BYTES
        }
        Tree::Trace { name, .. } => name.len() < VALUE_BYTES,
    };
    if fits { Ok(tree) } else { Err(Misread::TooLong) }
}

/// Reads from the front of the remaining text.
#[derive(Clone, Copy)]
struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn words(mut self) -> Option<Tree> {
        self.blanks();
        let verb = self.word()?;
        // The words must be separated by blanks, even if quotes would separate them.
        let object = if self.blanks() && !self.rest.is_empty() && !self.rest.starts_with(';') {
            let is_client = verb.eq_ignore_ascii_case("kill_client");
            Some(if is_client { self.name() } else { self.object() }?)
        } else {
            None
        };
        self.is_end().then_some(Tree::Words { verb, object })
    }

    fn extended(mut self) -> Option<Tree> {
        self.blanks();
        is_show(&self.word()?).then_some(())?;
        self.blanks().then_some(())?;
        let subject = self.object()?;
        self.blanks().then_some(())?;
        self.word()?.eq_ignore_ascii_case("extended").then_some(())?;
        self.is_end().then_some(Tree::Extended { subject })
    }

    fn set(mut self) -> Option<Tree> {
        self.blanks();
        let verb = self.word()?;
        if !verb.eq_ignore_ascii_case("set") || !self.blanks() {
            return None;
        }
        let mut key = self.word()?;
        if self.takes(".") {
            key = format!("{key}.{}", self.word()?);
        }
        self.blanks();
        if !self.takes("=") {
            let to = self.word()?;
            to.eq_ignore_ascii_case("to").then_some(())?;
        }
        self.blanks();
        let value = self.value()?;
        self.is_end().then_some(Tree::Set { key, value })
    }

    /// Reads a word or quoted text. An integer may have a sign, as in PostgreSQL's `SET`; a plus is dropped.
    fn value(&mut self) -> Option<String> {
        if self.rest.starts_with('\'') {
            return self.quoted('\'');
        }
        let sign = match (self.takes("-"), self.takes("+")) {
            (false, false) => return self.word(),
            (true, true) => return None,
            (true, false) => "-",
            (false, true) => "",
        };
        self.blanks();
        let is_digit = |c: char| c.is_ascii_digit();
        let number = self.rest.starts_with(is_digit).then(|| self.word()).flatten()?;
        number.chars().all(is_digit).then(|| format!("{sign}{number}"))
    }

    fn timed(mut self) -> Option<Tree> {
        self.blanks();
        let verb = self.word()?;
        let is_timed = verb.eq_ignore_ascii_case("pause") || verb.eq_ignore_ascii_case("hold");
        if !is_timed || !self.blanks() {
            return None;
        }
        // A database may have the name `for`, too.
        let mut named = self;
        let object = named.object().filter(|_| named.blanks());
        match object.and_then(|object| Some((object, named.after_for()?))) {
            Some((object, lasts)) => Some(Tree::Timed { verb, object: Some(object), lasts }),
            None => self.after_for().map(|lasts| Tree::Timed { verb, object: None, lasts }),
        }
    }

    fn switchover(mut self) -> Option<Tree> {
        self.blanks();
        if !self.word()?.eq_ignore_ascii_case("switchover") || !self.blanks() {
            return None;
        }
        // A cluster may have the name `to`, too.
        let mut named = self;
        let cluster = named.object().filter(|_| named.blanks());
        match cluster.and_then(|cluster| Some((cluster, named.target()?))) {
            Some((cluster, to)) => Some(Tree::Switchover { cluster: Some(cluster), to }),
            None => self.target().map(|to| Tree::Switchover { cluster: None, to }),
        }
    }

    /// Returns the member behind the word `TO`: a name, or a host and a port.
    fn target(mut self) -> Option<String> {
        let is_to = !self.rest.starts_with('"') && self.word()?.eq_ignore_ascii_case("to") && self.blanks();
        is_to.then_some(())?;
        let to = match self.rest.chars().next()? {
            '"' | '\'' => self.name()?,
            _ => {
                let end = self.rest.find(|c: char| BLANKS.contains(&c) || c == ';').unwrap_or(self.rest.len());
                let (to, rest) = self.rest.split_at(end);
                self.rest = rest;
                to.to_owned()
            }
        };
        (self.is_end() && !to.is_empty()).then_some(to)
    }

    /// Returns everything behind the word `FOR`, without a final semicolon.
    fn after_for(mut self) -> Option<String> {
        if self.rest.starts_with('"') || !self.word()?.eq_ignore_ascii_case("for") {
            return None;
        }
        if !self.blanks() && !self.is_end() {
            return None;
        }
        let rest = self.rest.trim_end_matches(BLANKS);
        Some(rest.strip_suffix(';').unwrap_or(rest).trim_end_matches(BLANKS).to_owned())
    }

    fn trace(mut self) -> Option<Tree> {
        self.blanks();
        let verb = self.word()?;
        if !verb.eq_ignore_ascii_case("trace") || !self.blanks() {
            return None;
        }
        let kind = self.word()?;
        self.blanks().then_some(())?;
        let name = self.name()?;
        if self.is_end() {
            return Some(Tree::Trace { kind, name, lasts: None });
        }
        self.blanks().then_some(())?;
        self.word()?.eq_ignore_ascii_case("for").then_some(())?;
        self.blanks().then_some(())?;
        let count = self.word()?;
        self.blanks();
        let unit = if self.is_end() { None } else { Some(self.word()?) };
        self.is_end().then_some(Tree::Trace { kind, name, lasts: Some((count, unit)) })
    }

    /// Returns whether only blanks and at most one semicolon are left.
    fn is_end(mut self) -> bool {
        self.blanks();
        self.takes(";");
        self.blanks();
        self.rest.is_empty()
    }

    /// Skips blanks and returns whether there were any.
    fn blanks(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches(BLANKS);
        self.rest.len() < before
    }

    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads the same, or text in single quotes. PgBouncer's commands know only double quotes for their objects.
    fn name(&mut self) -> Option<String> {
        if self.rest.starts_with('\'') { self.quoted('\'') } else { self.object() }
    }

    /// Reads a word, or a client's name as in the log: `C-0x1f`.
    fn object(&mut self) -> Option<String> {
        let log = ["C-", "c-"].into_iter().find(|start| self.rest.starts_with(start));
        match log {
            Some(start) => {
                self.takes(start);
                let number = if self.rest.starts_with('"') { None } else { self.word() };
                Some(format!("C-{}", number?))
            }
            None => self.word(),
        }
    }

    fn word(&mut self) -> Option<String> {
        if self.rest.starts_with('"') {
            return self.quoted('"');
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Reads quoted text, in which a doubled quote stands for one.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut rest = self.rest.strip_prefix(quote)?;
        loop {
            let (before, after) = rest.split_once(quote)?;
            text.push_str(before);
            match after.strip_prefix(quote) {
                Some(more) => {
                    text.push(quote);
                    rest = more;
                }
                None => {
                    self.rest = after;
                    return Some(text);
                }
            }
        }
    }
}

/// Returns whether the verb is SHOW; `SELECT` is a synonym.
pub(crate) fn is_show(verb: &str) -> bool {
    verb.eq_ignore_ascii_case("SHOW") || verb.eq_ignore_ascii_case("SELECT")
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
/// PgBouncer's buffer sizes for a verb, a key and a value, each including a terminating zero.
const VERB_BYTES: usize = 16;
const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(verb: &str, object: Option<&str>) -> Result<Tree, Misread> {
        Ok(Tree::Words { verb: verb.to_owned(), object: object.map(str::to_owned) })
    }

    fn set(key: &str, value: &str) -> Result<Tree, Misread> {
        Ok(Tree::Set { key: key.to_owned(), value: value.to_owned() })
    }

    #[test]
    fn a_command_is_one_or_two_words_in_any_dress() {
        assert_eq!(parse("reload"), words("reload", None));
        for text in ["SHOW pools", "  SHOW\n\tpools ; ", "SHOW \"pools\";", "\"SHOW\" pools;"] {
            assert_eq!(parse(text), words("SHOW", Some("pools")), "{text:?}");
        }
        assert_eq!(parse("PAUSE \"a \"\"b\"\"\""), words("PAUSE", Some("a \"b\"")));
        assert_eq!(parse("KILL \"\""), words("KILL", Some("")));
        for text in ["KILL_CLIENT C-0x1f;", "KILL_CLIENT \"C-0x1f\"", "kill_client 'C-0x1f' ;"] {
            let verb = &text[..11];
            assert_eq!(parse(text), words(verb, Some("C-0x1f")), "{text:?}");
        }
    }

    #[test]
    fn show_takes_a_third_word_for_all_columns() {
        for text in ["SHOW pools EXTENDED", " select\tpools extended ; ", "SHOW \"pools\" \"EXTENDED\";"] {
            assert_eq!(parse(text), Ok(Tree::Extended { subject: "pools".to_owned() }), "{text:?}");
        }
        for text in ["SHOW pools EXTENDED more", "SHOW pools extend", "PAUSE pools EXTENDED", "SHOW \"pools\"extended"]
        {
            assert_eq!(parse(text), Err(Misread::Shape), "{text:?}");
        }
        assert_eq!(parse(&format!("SHOW {} EXTENDED", "x".repeat(64))), Err(Misread::TooLong));
    }

    #[test]
    fn set_takes_a_sign_or_a_word_and_three_kinds_of_value() {
        for text in ["SET a=b", "set a = b;", "Set \"a\" to \"b\"", " SET a TO 'b' ; ", "set a='b'"] {
            assert_eq!(parse(text), set("a", "b"), "{text:?}");
        }
        assert_eq!(parse("SET a = 'it''s'"), set("a", "it's"));
        assert_eq!(parse("SET a = ''"), set("a", ""));
        assert_eq!(parse("SET a.b = c"), set("a.b", "c"));
    }

    #[test]
    fn set_takes_a_number_with_a_sign_without_quotes() {
        for text in ["SET a = -1", "SET a=-1;", "set a to - 1", "SET a TO '-1'"] {
            assert_eq!(parse(text), set("a", "-1"), "{text:?}");
        }
        assert_eq!(parse("SET a = +15;"), set("a", "15"));
        for text in
            ["SET a = -", "SET a = --1", "SET a = -+1", "SET a = +-1", "SET a = -b", "SET a = -1b", "SET a = -\"1\""]
        {
            assert_eq!(parse(text), Err(Misread::Shape), "{text:?}");
        }
    }

    #[test]
    fn a_trace_has_a_kind_a_name_and_perhaps_how_long_it_lasts() {
        let trace = |kind: &str, name: &str, lasts: Option<(&str, Option<&str>)>| {
            let lasts = lasts.map(|(count, unit)| (count.to_owned(), unit.map(str::to_owned)));
            Ok(Tree::Trace { kind: kind.to_owned(), name: name.to_owned(), lasts })
        };
        assert_eq!(parse("TRACE CLIENT C-0x2a;"), trace("CLIENT", "C-0x2a", None));
        assert_eq!(parse("trace application 'it''s mine' for 5"), trace("application", "it's mine", Some(("5", None))));
        let timed = trace("database", "a-b", Some(("10", Some("seconds"))));
        assert_eq!(parse(" trace database \"a-b\" FOR 10 seconds ; "), timed);
        assert_eq!(parse("TRACE CLIENT"), words("TRACE", Some("CLIENT")));
        for text in [
            "TRACE a b c",
            "TRACE client C-\"0x1\"",
            "TRACE a b FOR",
            "TRACE a b FOR -1",
            "TRACE a b FOR 1 s x",
            "TRACE a 'b",
            "TRACE a b; c",
            "PAUSE a b",
            "TRACE a bFOR 1",
        ] {
            assert_eq!(parse(text), Err(Misread::Shape), "{text:?}");
        }
        assert_eq!(parse(&format!("TRACE a {}", "x".repeat(256))), Err(Misread::TooLong));
    }

    #[test]
    fn a_pause_has_a_database_or_none_and_perhaps_how_long_it_lasts() {
        let pause = |object: Option<&str>, lasts: &str| {
            let (verb, object) = ("PAUSE".to_owned(), object.map(str::to_owned));
            let tree = Tree::Timed { verb, object, lasts: lasts.to_owned() };
            Ok(tree)
        };
        assert_eq!(parse("PAUSE shop FOR 30"), pause(Some("shop"), "30"));
        assert_eq!(parse(" PAUSE \"a b\"\tfor 30 seconds ; "), pause(Some("a b"), "30 seconds"));
        assert_eq!(parse("PAUSE FOR 30;"), pause(None, "30"));
        assert_eq!(parse("PAUSE for FOR 30"), pause(Some("for"), "30"));
        assert_eq!(parse("PAUSE \"for\" for 30"), pause(Some("for"), "30"));
        assert_eq!(parse("PAUSE FOR"), words("PAUSE", Some("FOR")), "of a database of this name, as in PgBouncer");
        for (text, lasts) in
            [("PAUSE shop FOR", ""), ("PAUSE shop FOR -5", "-5"), ("PAUSE shop FOR 5; KILL;", "5; KILL")]
        {
            assert_eq!(parse(text), pause(Some("shop"), lasts));
        }
        for text in [
            "PAUSE a b",
            "PAUSE a FOR30",
            "PAUSE a \"FOR\" 30",
            "PAUSE \"FOR\" 30",
            "RESUME a FOR 30",
            "PAUSE a bFOR 1",
        ] {
            assert_eq!(parse(text), Err(Misread::Shape), "{text:?}");
        }
        assert_eq!(parse(&format!("PAUSE a FOR {}", "1".repeat(256))), Err(Misread::TooLong));
        assert_eq!(parse(&format!("PAUSE {} FOR 1", "x".repeat(64))), Err(Misread::TooLong));
    }

    #[test]
    fn a_switchover_has_a_cluster_or_none_and_perhaps_a_target() {
        let switchover = |cluster: Option<&str>, to: &str| {
            Ok(Tree::Switchover { cluster: cluster.map(str::to_owned), to: to.to_owned() })
        };
        assert_eq!(parse("SWITCHOVER main TO 10.0.0.2:5432;"), switchover(Some("main"), "10.0.0.2:5432"));
        assert_eq!(parse("switchover to node-b"), switchover(None, "node-b"));
        assert_eq!(parse("SWITCHOVER \"a b\" to 'c''d' ; "), switchover(Some("a b"), "c'd"));
        assert_eq!(parse("SWITCHOVER to TO b"), switchover(Some("to"), "b"));
        assert_eq!(parse("SWITCHOVER main"), words("SWITCHOVER", Some("main")));
        assert_eq!(parse("SWITCHOVER"), words("SWITCHOVER", None));
        for text in ["SWITCHOVER main TO", "SWITCHOVER a b", "SWITCHOVER main TO b c", "SWITCHOVER a TO ''"] {
            let is_words = parse(text).is_ok_and(|tree| matches!(tree, Tree::Words { .. }));
            assert!(parse(text).is_err() || is_words, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_no_command() {
        for text in
            ["", ";", "a b c", "SHOW pools; SHOW pools", "SHOW pools;;", "SHOW-pools", "SHOW \"pools", "SHOW 'a'"]
        {
            assert_eq!(parse(text), Err(Misread::Shape), "{text:?}");
        }
        for text in [
            "SET a",
            "SET = b",
            "SET a b",
            "SET a = b c",
            "SET a = 0.5",
            "SET a. = b",
            "SET a.b.c = d",
            "SELECT 1+1",
            "a\"b\"",
            "SHÖW x",
        ] {
            let is_words = text == "SET a";
            assert_eq!(parse(text).is_ok(), is_words, "{text:?}");
        }
    }

    #[test]
    fn a_word_longer_than_any_is_told_apart_from_nonsense() {
        assert_eq!(parse(&"x".repeat(16)), Err(Misread::TooLong));
        assert!(parse(&"x".repeat(15)).is_ok());
        assert_eq!(parse(&format!("SHOW {}", "x".repeat(64))), Err(Misread::TooLong));
        assert_eq!(parse(&format!("SET a='{}'", "x".repeat(256))), Err(Misread::TooLong));
        assert!(parse(&format!("SET a='{}'", "x".repeat(255))).is_ok());
    }
}
