//! Parses the part of pgbench's language that the scripts use.
//!
//! Always true: a line has the same meaning here as in pgbench, except for marks, which pgbench ignores.

use super::header::Protocol;
use super::mark::Mark;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `\set NAME ...`: sets a variable.
    Set(String, Draw),
    /// Sends a statement and waits for its answer.
    Ask(Statement),
    /// Sends a statement together with the following line, without waiting for the answer (`-- ahead` in the line before it).
    /// pgbench waits for the answer.
    Ahead(Statement),
    /// `\startpipeline` to `\endpipeline`: statements with a single Sync at the end.
    Pipeline(Vec<Statement>),
}

/// The value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// `random(LEAST, MOST)`.
    Between(u32, u32),
    /// A number.
    Fixed(u32),
}

/// One Query in the simple protocol, or the messages of one statement in the extended protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    text: String,
    /// In which form it is sent. [`Mark::Simple`] is among them in a simple script.
    marks: Vec<Mark>,
}

impl Statement {
    /// Whether it is sent in this form.
    #[must_use]
    pub fn has(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// The text for a Query, with every variable replaced by its value, even within literals. `:client_id` is a variable, too.
    #[must_use]
    pub fn with_values(&self, value: impl Fn(&str) -> Option<String>) -> String {
        self.replaced(|name| value(name))
    }

    /// The text for a Parse, with `$1`, `$2` and so on in place of variables, and the names of these variables.
    #[must_use]
    pub fn with_parameters(&self, is_known: impl Fn(&str) -> bool) -> (String, Vec<String>) {
        let names = std::cell::RefCell::new(Vec::new());
        let text = self.replaced(|name| {
            is_known(name).then(|| {
                names.borrow_mut().push(name.to_owned());
                format!("${}", names.borrow().len())
            })
        });
        (text, names.into_inner())
    }

    /// Replaces variables as pgbench does: a name behind a single colon is a variable; an unknown name stays.
    fn replaced(&self, value: impl Fn(&str) -> Option<String>) -> String {
        let (mut text, mut rest) = (String::new(), self.text.as_str());
        while let Some(at) = rest.find(':') {
            let (before, behind) = rest.split_at(at);
            text.push_str(before);
            let colons = behind.len() - behind.trim_start_matches(':').len();
            let name_len = behind[colons..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &behind[colons..][..name_len.unwrap_or(behind.len() - colons)];
            match value(name).filter(|_| colons == 1 && !name.is_empty()) {
                Some(value) => text.push_str(&value),
                None => text.push_str(&behind[..colons + name.len()]),
            }
            rest = &behind[colons + name.len()..];
        }
        text + rest
    }
}

/// The lines of the two sections with their numbers, without empty lines and comments other than marks.
pub(crate) struct Sections<'a> {
    pub(crate) connect: Vec<(usize, &'a str)>,
    pub(crate) each: Vec<(usize, &'a str)>,
}

impl<'a> Sections<'a> {
    /// Splits the text from the line `begin` on. Lines before the first section head belong to `each`.
    pub(crate) fn of(text: &'a str, begin: usize) -> Self {
        let mut sections = Self { connect: Vec::new(), each: Vec::new() };
        let mut is_each = true;
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end())).skip(begin - 1) {
            let is_comment = line.starts_with("--") && Mark::of(line).is_none();
            match line {
                "-- [connect]" => is_each = false,
                "-- [each]" => is_each = true,
                _ if line.is_empty() || is_comment => {}
                _ if is_each => sections.each.push((number, line)),
                _ => sections.connect.push((number, line)),
            }
        }
        sections
    }
}

pub(crate) fn read(lines: &[(usize, &str)], protocol: Protocol) -> Result<Vec<Line>, (usize, String)> {
    let mut reading = Reading { protocol, lines: Vec::new(), pipeline: None, text: String::new(), marks: Vec::new() };
    for &(number, line) in lines {
        reading.line(line).map_err(|what| (number, what.to_owned()))?;
    }
    let end = lines.last().map_or(1, |&(number, _)| number);
    match (reading.text.is_empty() && reading.marks.is_empty(), reading.pipeline, reading.lines.last()) {
        (false, _, _) => Err((end, "the last statement has no end".into())),
        (_, Some(_), _) => Err((end, "the pipeline has no end".into())),
        (_, _, Some(Line::Ahead(_))) => Err((end, "nothing follows what is sent ahead".into())),
        _ => Ok(reading.lines),
    }
}

/// The state of the parser.
struct Reading {
    protocol: Protocol,
    lines: Vec<Line>,
    pipeline: Option<Vec<Statement>>,
    /// The text of an unfinished statement; `marks` are the marks before it.
    text: String,
    marks: Vec<Mark>,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        if !self.text.is_empty() {
            return self.part(line);
        }
        if let Some(mark) = Mark::of(line) {
            self.marks.push(mark);
            return Ok(());
        }
        match line {
            "\\startpipeline" if self.protocol == Protocol::Simple => Err("a pipeline needs the extended protocol"),
            "\\startpipeline" => self.pipeline.replace(Vec::new()).map_or(Ok(()), |_| Err("a pipeline in a pipeline")),
            "\\endpipeline" => {
                let pipeline = self.pipeline.take().ok_or("no pipeline has begun")?;
                self.lines.push(Line::Pipeline(pipeline));
                Ok(())
            }
            _ if line.starts_with('\\') => {
                self.lines.push(command(line).ok_or(COMMAND)?);
                Ok(())
            }
            _ => self.part(line),
        }
    }

    /// Handles a line of a statement, perhaps its last.
    fn part(&mut self, line: &str) -> Result<(), &'static str> {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
        if !self.text.ends_with(';') || self.text.ends_with("\\;") {
            return Ok(());
        }
        self.text.pop();
        let (joined, mut marks) = (std::mem::take(&mut self.text), std::mem::take(&mut self.marks));
        if self.protocol == Protocol::Simple && !marks.contains(&Mark::Simple) {
            marks.push(Mark::Simple);
        }
        let statement = Statement { text: joined.replace("\\;", ";"), marks };
        let (is_simple, is_ahead) = (statement.has(Mark::Simple), statement.has(Mark::Ahead));
        if joined.contains("\\;") && !is_simple {
            return Err("statements that are joined need the simple protocol");
        }
        if is_simple && statement.marks.iter().any(|mark| !matches!(mark, Mark::Simple | Mark::Ahead)) {
            return Err("only messages of the extended protocol have this form");
        }
        if statement.has(Mark::Unsynced) && !is_ahead {
            return Err("only what is sent ahead may be without a Sync");
        }
        match &mut self.pipeline {
            Some(_) if is_ahead || is_simple => return Err("a pipeline is of one kind"),
            Some(pipeline) => pipeline.push(statement),
            None if is_ahead => self.lines.push(Line::Ahead(statement)),
            None => self.lines.push(Line::Ask(statement)),
        }
        Ok(())
    }
}

fn command(line: &str) -> Option<Line> {
    let (name, value) = line.strip_prefix("\\set ")?.split_once(' ')?;
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let draw = match value.trim().strip_prefix("random(") {
        Some(bounds) => {
            let (least, most) = bounds.strip_suffix(')')?.split_once(',')?;
            Draw::Between(number(least)?, number(most)?)
        }
        None => Draw::Fixed(number(value)?),
    };
    Some(Line::Set(name.to_owned(), draw))
}

const COMMAND: &str =
    "of pgbench's commands only \\set NAME NUMBER, \\set NAME random(LEAST, MOST), \\startpipeline, \\endpipeline";

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Statement {
        Statement { text: text.into(), marks: vec![Mark::Simple] }
    }

    fn lines(text: &str) -> Result<Vec<Line>, (usize, String)> {
        read(&Sections::of(text, 1).each, Protocol::Simple)
    }

    fn lines_extended(text: &str) -> Result<Vec<Line>, String> {
        read(&Sections::of(text, 1).each, Protocol::Extended).map_err(|(_, what)| what)
    }

    #[test]
    fn variables_are_replaced_and_casts_and_times_are_not() {
        let value = |name: &str| (name == "id").then(|| "7".to_owned());
        let text = "SELECT :id::text, '12:30', 't_:id', :other, a[1:2]";
        let replaced = "SELECT 7::text, '12:30', 't_7', :other, a[1:2]";
        assert_eq!(statement(text).with_values(value), replaced);
    }

    #[test]
    fn variables_become_parameters_in_their_order() {
        let (text, names) = statement("SELECT :a, :b, :a::int").with_parameters(|name| name != "int");
        assert_eq!((text.as_str(), names.join(" ").as_str()), ("SELECT $1, $2, $3::int", "a b a"));
    }

    #[test]
    fn statements_that_are_joined_are_sent_at_once() {
        let read = lines("BEGIN\\;\nSELECT 1;\n-- a comment\n\\set a random(1, 5)\n\\set b 3\nCOMMIT;\n");
        let wanted = [
            Line::Ask(statement("BEGIN;\nSELECT 1")),
            Line::Set("a".into(), Draw::Between(1, 5)),
            Line::Set("b".into(), Draw::Fixed(3)),
            Line::Ask(statement("COMMIT")),
        ];
        assert_eq!(read.expect("lines"), wanted);
    }

    #[test]
    fn a_statement_may_be_simple_ahead_of_another_or_in_a_pipeline() {
        let read = lines_extended("-- simple\n-- ahead\na\\;b;\nc;\n\\startpipeline\nd;\ne;\n\\endpipeline\n");
        let extended = |text: &str| Statement { text: text.into(), marks: Vec::new() };
        let ahead = Statement { text: "a;b".into(), marks: vec![Mark::Simple, Mark::Ahead] };
        let pipeline = Line::Pipeline(vec![extended("d"), extended("e")]);
        assert_eq!(read.expect("lines"), [Line::Ahead(ahead), Line::Ask(extended("c")), pipeline]);
        assert!(lines_extended("a\\;b;").is_err_and(|what| what.contains("joined")));
        assert!(lines_extended("-- ahead\na;\n").is_err_and(|what| what.contains("ahead")));
        assert!(lines_extended("-- unsynced\na;\n").is_err_and(|what| what.contains("Sync")));
        assert!(lines_extended("-- ahead\n-- unsynced\na;\n-- simple\nb;\n").is_ok());
        assert!(lines_extended("-- simple\n-- one row\nb;\n").is_err_and(|what| what.contains("form")));
        assert!(lines_extended("\\startpipeline\na;\n").is_err_and(|what| what.contains("no end")));
        assert!(lines("\\startpipeline\n").is_err());
    }

    #[test]
    fn what_a_player_of_ours_would_not_know_is_a_mistake() {
        assert_eq!(lines("\\sleep 1").expect_err("unknown").1, COMMAND);
        assert_eq!(lines("\\set a random(1, :b)").expect_err("unknown").1, COMMAND);
        assert_eq!(lines("SELECT 1\n").expect_err("no end"), (1, "the last statement has no end".into()));
    }
}
