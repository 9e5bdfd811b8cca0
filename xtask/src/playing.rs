//! A script of what drivers send on their own, as one client runs it.
//!
//! Always true: a client draws, where possible, other values than other clients, so clients of a script have different
//! settings. If it draws the same values each time, each run sends the same messages.
//! Not here: the scripts (`tests/habits`), their reader and the messages (`habits`), the connection.

use std::collections::BTreeMap;
use std::io;

use habits::{Draw, Habit, Line, Speaker};

/// A connection that a script uses.
pub(crate) trait Exchange {
    /// Sends, and reads up to this many `ReadyForQuery` messages. Returns the first error of the server.
    fn exchange(&mut self, messages: &[u8], answers: u32) -> io::Result<Option<String>>;
}

/// The values that a client draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draws {
    /// The same each time.
    Same,
    /// Others each time.
    Varying,
}

/// A script, and the statements that its client has prepared.
pub(crate) struct Script {
    habit: &'static Habit,
    client: u32,
    draws: Draws,
    /// How often it has been run.
    times: u32,
    values: BTreeMap<&'static str, u32>,
    speaker: Speaker,
}

impl Script {
    pub(crate) fn of(habit: &'static Habit, client: u32, draws: Draws) -> Self {
        let values = BTreeMap::from([("client_id", client)]);
        Self { habit, client, draws, times: 0, values, speaker: Speaker::of(habit) }
    }

    /// Sends what is sent at connect.
    pub(crate) fn connect(&mut self, connection: &mut impl Exchange) -> io::Result<()> {
        self.lines(connection, &self.habit.connect)
    }

    /// Sends what is sent each time.
    pub(crate) fn each(&mut self, connection: &mut impl Exchange) -> io::Result<()> {
        self.times = self.times.wrapping_add(1);
        self.lines(connection, &self.habit.each)
    }

    fn lines(&mut self, connection: &mut impl Exchange, lines: &'static [Line]) -> io::Result<()> {
        let (mut messages, mut answers) = (Vec::new(), 0);
        for line in lines {
            if let Line::Set(name, draw) = line {
                self.values.insert(name, self.drawn(*draw));
            }
            let value = |name: &str| self.values.get(name).map(u32::to_string);
            answers += self.speaker.line(line, value, &mut messages);
            if matches!(line, Line::Ask(_) | Line::Pipeline(_)) {
                let error = connection.exchange(&messages, answers)?;
                // In some scripts a statement must fail; these are not measured beside PgBouncer.
                if let Some(error) = error.filter(|_| self.habit.not_measured.is_none()) {
                    return Err(io::Error::other(error));
                }
                (messages, answers) = (Vec::new(), 0);
            }
        }
        Ok(())
    }

    fn drawn(&self, draw: Draw) -> u32 {
        let number = match self.draws {
            Draws::Same => self.client,
            Draws::Varying => self.client.wrapping_mul(7919).wrapping_add(self.times.wrapping_mul(104_729)),
        };
        match draw {
            Draw::Between(least, most) => least + number % (most - least + 1),
            Draw::Fixed(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str, client: u32) -> Script {
        let header = "-- One.\n-- by: a 1; f, g; connect\n-- protocol: prepared\n\n";
        let habit = Habit::read("one", &format!("{header}{text}")).expect("a habit");
        Script::of(Box::leak(Box::new(habit)), client, Draws::Same)
    }

    #[test]
    fn clients_draw_what_others_do_not_and_each_the_same_again() {
        let drawn = |client| script("SELECT 1;\n", client).drawn(Draw::Between(3, 4));
        assert_eq!([0, 1, 2].map(drawn), [3, 4, 3]);
        assert_eq!(script("SELECT 1;\n", 1).drawn(Draw::Fixed(9)), 9);
    }
}
