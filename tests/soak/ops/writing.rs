//! Transactions that write rows: at the end all rows of a transaction must be there, or none.
//!
//! Always true: a transaction adds one to its client's counter and writes a known number of rows with its own number.
//! Not here: whether the rows are there (`rest`).

use base::Random;
use tests::message::{bind, execute, frame, parse, query, sync};

use super::{begin, command, settle, went_well};
use crate::soak::ledger::{Ledger, Outcome};
use crate::soak::session::{End, Heard, Session};
use crate::soak::want::Want;

/// A transaction in one of the styles.
pub(super) fn perform(session: &mut Session<'_>, random: &mut Random, ledger: &mut Ledger) -> Result<(), End> {
    match random.below(10) {
        0..=2 => in_one_request(session, random, ledger),
        style => in_steps(session, random, ledger, style),
    }
}

/// A transaction within a single request: a Query of several statements, or a batch up to its Sync.
pub(super) fn in_one_request(session: &mut Session<'_>, random: &mut Random, ledger: &mut Ledger) -> Result<(), End> {
    let mut new = New::draw(session, random, ledger);
    let (bytes, wants) = match random.below(2) {
        0 => new.as_statements(),
        _ => new.as_batch(),
    };
    ledger.commits(new.number);
    let sent = session.send(&format!("transaction {} in one request, {} rows", new.number, new.parts), &bytes);
    if let Err(End::Left) = sent {
        // The last message was never sent whole, so the transaction must not take effect.
        ledger.ended(new.number, Outcome::Absent);
    }
    sent?;
    let heard = session.hear(&wants, 'I');
    new.note(session, ledger, heard).map(drop)
}

/// BEGIN, rows in one of several ways, COMMIT or ROLLBACK.
fn in_steps(session: &mut Session<'_>, random: &mut Random, ledger: &mut Ledger, style: u64) -> Result<(), End> {
    let mut new = New::draw(session, random, ledger);
    if !begin(session, random)? {
        return Ok(());
    }
    let heard = session.query(&new.count_sql(), &new.count_wants(true), 'T')?;
    if !went_well(session, heard)? {
        return Ok(());
    }
    let heard = match style {
        3..=4 => new.insert_one_by_one(session, random)?,
        5 => new.copy_in(session, random)?,
        6 => new.copy_in_with_an_early_sync(session, random)?,
        _ => return new.pipeline_to_the_end(session, ledger),
    };
    if !went_well(session, heard)? {
        return Ok(());
    }
    if random.below(5) == 0 {
        command(session, random, "rollback", "ROLLBACK", ('I', "IE"))?;
        session.world.tally.rolled_back.add(1);
        return settle(session);
    }
    ledger.commits(new.number);
    let heard = command(session, random, "commit", "COMMIT", ('I', "IE"));
    new.note(session, ledger, heard)?;
    settle(session)
}

/// A transaction that has not been written yet.
struct New {
    client: usize,
    number: usize,
    parts: u8,
    /// The text in its rows.
    note: String,
    counter: (u64, u64),
}

impl New {
    fn draw(session: &mut Session<'_>, random: &mut Random, ledger: &mut Ledger) -> Self {
        let parts = 1 + random.below(4) as u8;
        let note = format!("{}|{}", session.tag(), session.zone);
        let counter = ledger.counter();
        Self { client: session.who.id, number: ledger.begin(parts), parts, note, counter }
    }

    /// Records the outcome that the answer tells in the ledger.
    fn note(&mut self, session: &Session<'_>, ledger: &mut Ledger, heard: Result<Heard, End>) -> Result<Heard, End> {
        let tally = &session.world.tally;
        match &heard {
            Ok(Heard::All) => {
                tally.committed.add(1);
                ledger.ended(self.number, Outcome::Committed);
            }
            Ok(Heard::Failed(_)) => {
                tally.rolled_back.add(1);
                ledger.ended(self.number, Outcome::Absent);
            }
            Err(_) => tally.unknown.add(1),
        }
        heard
    }

    fn count_sql(&self) -> String {
        format!("update soak_counters set n = n + 1 where client = {} returning n", self.client)
    }

    /// Only this client updates its counter, so the value shows how many transactions were committed before.
    fn count_wants(&self, with_columns: bool) -> Vec<Want> {
        let number = [Want::Between(self.counter.0 + 1, self.counter.1 + 1), Want::tag("UPDATE 1")];
        with_columns.then(|| Want::columns(&["n"])).into_iter().chain(number).collect()
    }

    fn row(&self, part: u8) -> [String; 4] {
        [self.client.to_string(), self.number.to_string(), part.to_string(), self.note.clone()]
    }

    fn insert_sql(&self, part: u8) -> String {
        format!("{INSERT} values ({}, {}, {part}, '{}')", self.client, self.number, self.note)
    }

    fn as_statements(&self) -> (Vec<u8>, Vec<Want>) {
        let mut sql = self.count_sql();
        let mut wants = self.count_wants(true);
        for part in 0..self.parts {
            sql.push_str(&format!("; {}", self.insert_sql(part)));
            wants.push(Want::tag("INSERT 0 1"));
        }
        (query(&sql), wants)
    }

    fn as_batch(&self) -> (Vec<u8>, Vec<Want>) {
        let mut bytes = [parse("", &self.count_sql()), bind("", "", &[]), execute("", 0)].concat();
        let mut wants = Want::kinds(b"12");
        wants.extend(self.count_wants(false));
        for part in 0..self.parts {
            bytes.extend(self.insert_extended(part));
            wants.extend(Want::kinds(b"12"));
            wants.push(Want::tag("INSERT 0 1"));
        }
        bytes.extend(sync());
        (bytes, wants)
    }

    fn insert_extended(&self, part: u8) -> Vec<u8> {
        let values = self.row(part);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let sql = format!("{INSERT} values ($1, $2, $3, $4)");
        [parse("", &sql), bind("", "", &values), execute("", 0)].concat()
    }

    /// Inserts each row with a separate Query; sometimes with an error in between, which is rolled back to a savepoint.
    fn insert_one_by_one(&self, session: &mut Session<'_>, random: &mut Random) -> Result<Heard, End> {
        for part in 0..self.parts {
            if random.below(4) == 0 {
                let heard = stumble(session)?;
                if heard != Heard::All {
                    return Ok(heard);
                }
            }
            let heard = session.query(&self.insert_sql(part), &[Want::tag("INSERT 0 1")], 'T')?;
            if heard != Heard::All {
                return Ok(heard);
            }
        }
        Ok(Heard::All)
    }

    /// COPY from the client in either protocol, with the rows sent before or after CopyInResponse; sometimes the client
    /// sends CopyFail in the middle.
    fn copy_in(&self, session: &mut Session<'_>, random: &mut Random) -> Result<Heard, End> {
        let (is_extended, is_waiting, is_failing) = (random.below(2) == 0, random.below(2) == 0, random.below(6) == 0);
        let begin = match is_extended {
            true => [parse("", COPY), bind("", "", &[]), execute("", 0), frame(b'H', b"")].concat(),
            false => query(COPY),
        };
        let mut wants = Want::kinds(if is_extended { b"12G" } else { b"G" });
        let tag = session.tag();
        session.send(COPY, &begin)?;
        if is_waiting {
            if let Heard::Failed(code) = session.hear_part(&wants)? {
                if is_extended {
                    session.send("Sync after an error", &sync())?;
                }
                session.hear_ready("E")?;
                return Ok(Heard::Failed(code));
            }
            wants.clear();
        }
        wants.push(self.copy_end(is_failing, &tag));
        let data = self.copied(is_failing, &tag, is_extended);
        session.send(&format!("{} rows of transaction {}", self.parts, self.number), &data)?;
        let heard = session.hear_or(&wants, if is_failing { 'E' } else { 'T' }, "E")?;
        Ok(if is_failing { Heard::Failed("57014".to_string()) } else { heard })
    }

    /// COPY as libpq does it in the extended protocol: the Sync goes before the rows. A server that reads the rows ignores
    /// it; a second Sync ends the batch.
    fn copy_in_with_an_early_sync(&self, session: &mut Session<'_>, random: &mut Random) -> Result<Heard, End> {
        let (is_waiting, is_failing) = (random.below(2) == 0, random.below(3) == 0);
        let copy = [parse("", COPY), bind("", "", &[]), execute("", 0), sync()].concat();
        session.send(&format!("{COPY}, with a Sync"), &copy)?;
        if is_waiting && session.hear_part(&Want::kinds(b"12G"))? != Heard::All {
            session.hear_ready("E")?;
            return Ok(Heard::Failed(String::new()));
        }
        let tag = session.tag();
        session.send(
            &format!("{} rows of transaction {}, Sync", self.parts, self.number),
            &self.copied(is_failing, &tag, true),
        )?;
        let mut wants = Want::kinds(if is_waiting { b"" } else { b"12G" });
        wants.push(self.copy_end(is_failing, &tag));
        if session.hear_part(&wants)? == Heard::All && !is_failing {
            session.hear_ready("T")?;
            return Ok(Heard::All);
        }
        self.end_unproven(session)
    }

    /// Whether the server ignored the first Sync depends on the moment of the error, so there may be one more ReadyForQuery.
    fn end_unproven(&self, session: &mut Session<'_>) -> Result<Heard, End> {
        session.hear_ready("E")?;
        session.send("rollback", &query("rollback"))?;
        loop {
            let frame = session.frame()?;
            if Want::tag("ROLLBACK").fits(&frame) {
                session.hear_ready("I")?;
                return Ok(Heard::Failed(String::new()));
            }
            if frame.tag == b'Z' && frame.body == b"E" {
                continue;
            }
            if session.judge(&frame, "ROLLBACK")? != Heard::All {
                session.send("rollback", &query("rollback"))?;
            }
        }
    }

    /// The rows and the end of a COPY.
    fn copied(&self, is_failing: bool, tag: &str, with_sync: bool) -> Vec<u8> {
        let rows = (0..self.parts).map(|part| frame(b'd', format!("{}\n", self.row(part).join("\t")).as_bytes()));
        let mut data: Vec<u8> = rows.flatten().collect();
        data.extend(match is_failing {
            true => frame(b'f', &[tag.as_bytes(), b"\0"].concat()),
            false => frame(b'c', b""),
        });
        if with_sync {
            data.extend(sync());
        }
        data
    }

    fn copy_end(&self, is_failing: bool, tag: &str) -> Want {
        match is_failing {
            true => Want::Error("57014", format!("COPY from stdin failed: {tag}")),
            false => Want::Tag(format!("COPY {}", self.parts)),
        }
    }

    /// Sends all rows and the COMMIT in one write, each with its own Sync. After an error all that follow fail too.
    fn pipeline_to_the_end(&mut self, session: &mut Session<'_>, ledger: &mut Ledger) -> Result<(), End> {
        let mut bytes = Vec::new();
        for part in 0..self.parts {
            match part % 2 {
                0 => bytes.extend([self.insert_extended(part), sync()].concat()),
                _ => bytes.extend(query(&self.insert_sql(part))),
            }
        }
        bytes.extend(query("commit"));
        ledger.commits(self.number);
        session.send(&format!("the rest of transaction {} in one write, {} rows", self.number, self.parts), &bytes)?;
        let heard = self.hear_pipeline(session);
        self.note(session, ledger, heard)?;
        settle(session)
    }

    fn hear_pipeline(&self, session: &mut Session<'_>) -> Result<Heard, End> {
        for part in 0..self.parts {
            let mut wants = Want::kinds(if part % 2 == 0 { b"12" } else { b"" });
            wants.push(Want::tag("INSERT 0 1"));
            if let Heard::Failed(code) = session.hear(&wants, 'T')? {
                for _ in part + 1..self.parts {
                    session.hear_or(&[Want::Error("25P02", String::new())], 'E', "E")?;
                }
                session.hear_or(&[Want::tag("ROLLBACK")], 'I', "IE")?;
                return Ok(Heard::Failed(code));
            }
        }
        session.hear_or(&[Want::tag("COMMIT")], 'I', "IE")
    }
}

/// An error inside a transaction, rolled back to a savepoint.
fn stumble(session: &mut Session<'_>) -> Result<Heard, End> {
    let heard = session.query("savepoint here", &[Want::tag("SAVEPOINT")], 'T')?;
    if heard != Heard::All {
        return Ok(heard);
    }
    let tag = session.tag();
    let sql = format!("select '{tag}'::int");
    session.send(&sql, &query(&sql))?;
    let heard = session.hear_or(&[Want::Error("22P02", tag)], 'E', "E")?;
    if heard != Heard::All {
        return Ok(heard);
    }
    session.send("rollback to here", &query("rollback to here"))?;
    session.hear_or(&[Want::tag("ROLLBACK")], 'T', "E")
}

const COPY: &str = "copy soak_log (client, number, part, note) from stdin";
const INSERT: &str = "insert into soak_log (client, number, part, note)";
