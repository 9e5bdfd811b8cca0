//! The messages of a client that plays a script, in the form in which its driver sends them: protocol, names, limits.
//!
//! Always true: a text is prepared once under a name and then bound under it, unless a mark says otherwise.
//! Not here: the values of variables, and the connection.

use super::{Habit, Line, Mark, Protocol, Statement};

/// What a client has prepared so far.
#[derive(Debug)]
pub struct Speaker {
    protocol: Protocol,
    /// The texts that have been prepared under names, with the numbers of these names.
    prepared: Vec<(String, u32)>,
    /// How many names have been used.
    names: u32,
}

impl Speaker {
    /// A client that has prepared nothing.
    #[must_use]
    pub fn of(habit: &Habit) -> Self {
        Self { protocol: habit.protocol, prepared: Vec::new(), names: 0 }
    }

    /// Appends the messages of a line. Returns how many ReadyForQuery answer them.
    pub fn line(&mut self, line: &Line, value: impl Fn(&str) -> Option<String>, out: &mut Vec<u8>) -> u32 {
        match line {
            Line::Set(..) => return 0,
            Line::Ask(statement) | Line::Ahead(statement) => {
                self.statement(statement, value, out);
                if statement.has(Mark::Unsynced) {
                    return 0;
                }
                if !statement.has(Mark::Simple) {
                    message(b'S', b"", out);
                }
            }
            Line::Pipeline(statements) => {
                statements.iter().for_each(|statement| self.statement(statement, &value, out));
                message(b'S', b"", out);
            }
        }
        1
    }

    /// Appends the messages of a statement, without a Sync.
    fn statement(&mut self, statement: &Statement, value: impl Fn(&str) -> Option<String>, out: &mut Vec<u8>) {
        if statement.has(Mark::Simple) {
            return message(b'Q', format!("{}\0", statement.with_values(value)).as_bytes(), out);
        }
        let (text, names) = if statement.has(Mark::Literal) {
            (statement.with_values(value), Vec::new())
        } else {
            let (text, names) = statement.with_parameters(|name| value(name).is_some());
            (text, names.iter().filter_map(|name| value(name)).collect())
        };
        let before = out.len();
        let name = self.parse(statement, text, out);
        let is_known = out.len() == before;
        message(b'B', &bind(&name, &names), out);
        if !(statement.has(Mark::Undescribed) || is_known && statement.has(Mark::DescribedOnce)) {
            message(b'D', b"P\0", out);
        }
        message(b'E', if statement.has(Mark::OneRow) { b"\0\0\0\0\x01" } else { b"\0\0\0\0\0" }, out);
    }

    /// Appends the Parse that a text needs, if any, and returns the name of its statement.
    fn parse(&mut self, statement: &Statement, text: String, out: &mut Vec<u8>) -> String {
        if self.protocol != Protocol::Prepared || statement.has(Mark::Unnamed) {
            message(b'P', format!("\0{text}\0\0\0").as_bytes(), out);
            return String::new();
        }
        if let Some(at) = self.prepared.iter().position(|(known, _)| *known == text) {
            let name = name(self.prepared[at].1);
            if !statement.has(Mark::Renewed) {
                return name;
            }
            self.prepared.swap_remove(at);
            message(b'C', format!("S{name}\0").as_bytes(), out);
        }
        let name = name(self.names);
        message(b'P', format!("{name}\0{text}\0\0\0").as_bytes(), out);
        self.prepared.push((text, self.names));
        self.names += 1;
        name
    }
}

fn name(number: u32) -> String {
    format!("s{number}")
}

/// The body of a Bind with text values.
fn bind(name: &str, values: &[String]) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0").into_bytes();
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend(*b"\0\0");
    body
}

fn message(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of the messages that each run of a script sends, with the name of a Parse or Bind and the limit of an Execute.
    fn said(protocol: &str, script: &str, times: usize) -> Vec<String> {
        let header = format!("-- One.\n-- by: a 1; f, g; connect\n-- protocol: {protocol}\n\n");
        let habit = Habit::read("one", &format!("{header}{script}")).expect("a habit");
        let mut speaker = Speaker::of(&habit);
        let value = |name: &str| (name == "id").then(|| "7".to_owned());
        let run = |_| {
            let mut bytes = Vec::new();
            let answers: u32 = habit.each.iter().map(|line| speaker.line(line, value, &mut bytes)).sum();
            format!("{} {answers}", told(&bytes))
        };
        (0..times).map(run).collect()
    }

    fn told(mut bytes: &[u8]) -> String {
        let mut all = String::new();
        while let [kind, a, b, c, d, rest @ ..] = bytes {
            let (body, behind) = rest.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4);
            let words: Vec<&str> = body.split(|&byte| byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
            all += &match kind {
                b'P' => format!("P({},{})", words[0], words[1]),
                b'B' => format!("B({})", words[1]),
                b'Q' | b'C' => format!("{}({})", char::from(*kind), words[0]),
                b'E' => format!("E{}", body[4]),
                kind => char::from(*kind).to_string(),
            };
            bytes = behind;
        }
        all
    }

    #[test]
    fn a_script_is_sent_by_its_protocol() {
        let script = "SELECT :id;\n";
        assert_eq!(said("simple", script, 1), ["Q(SELECT 7) 1"]);
        assert_eq!(said("extended", script, 1), ["P(,SELECT $1)B()DE0S 1"]);
        assert_eq!(said("prepared", script, 2), ["P(s0,SELECT $1)B(s0)DE0S 1", "B(s0)DE0S 1"]);
    }

    #[test]
    fn a_mark_changes_the_form_of_its_statement_only() {
        let pgjdbc = "-- unnamed\n-- literal\n-- one row\nSET a TO 't_:id';\n-- renewed\nSELECT :id;\n";
        let set = "P(,SET a TO 't_7')B()DE1S";
        assert_eq!(
            said("prepared", pgjdbc, 2),
            [format!("{set}P(s0,SELECT $1)B(s0)DE0S 2"), format!("{set}C(Ss0)P(s1,SELECT $1)B(s1)DE0S 2")]
        );
        let begin = "-- ahead\n-- unsynced\n-- undescribed\nBEGIN;\nSELECT 1;\n";
        assert_eq!(said("prepared", begin, 1), ["P(s0,BEGIN)B(s0)E0P(s1,SELECT 1)B(s1)DE0S 1"]);
        let once = said("prepared", "-- described once\nSELECT 1;\n", 2);
        assert_eq!(once, ["P(s0,SELECT 1)B(s0)DE0S 1", "B(s0)E0S 1"]);
        assert_eq!(said("extended", "-- simple\n-- ahead\nBEGIN;\nSELECT 1;\n", 1), ["Q(BEGIN)P(,SELECT 1)B()DE0S 2"]);
    }
}
