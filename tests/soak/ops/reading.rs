//! Requests that only read.

use base::Random;
use tests::message::{self, bind, execute, frame, parse, query, strings, sync};

use crate::soak::session::{End, Heard, Session};
use crate::soak::skewed;
use crate::soak::want::Want;

/// The client's own settings must be in force on any server that answers.
pub(super) fn own_settings(session: &mut Session<'_>) -> Result<(), End> {
    let (tag, name) = (session.tag(), session.who.name());
    let sql = format!(
        "select '{tag}' as \"{tag}\", current_setting('TimeZone') as zone, current_setting('application_name') as name"
    );
    let wants = Want::one_row(&[&tag, "zone", "name"], &[&tag, session.zone, &name]);
    session.query(&sql, &wants, 'I').map(drop)
}

/// Several statements in one Query; one of them may fail, and then none of the following ones is run.
pub(super) fn several_statements(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let count = 2 + random.below(5);
    let failing = random.below(2 * count);
    let (mut sql, mut wants) = (String::new(), Vec::new());
    for number in 0..count {
        let tag = session.tag();
        if number == failing {
            sql.push_str("select 1 / 0 as zero; ");
            // PostgreSQL divides constants when it plans the query, before it describes the columns.
            wants.push(Want::Error("22012", "division by zero".to_string()));
            let rest = session.tag();
            sql.push_str(&format!("select '{rest}'"));
            break;
        }
        sql.push_str(&format!("select '{tag}' as a; "));
        wants.extend(Want::one_row(&["a"], &[&tag]));
    }
    session.query(&sql, &wants, 'I').map(drop)
}

/// Parse, Bind, Describe, Execute, Sync, with a parameter.
pub(super) fn extended(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let rows = 1 + random.below(20);
    let sql = "select $1::text || '/' || i as mine from generate_series(1, $2::int) i";
    let bytes = [parse("", sql), bind("", "", &[&tag, &rows.to_string()]), describe(b'P', ""), execute("", 0), sync()];
    let mut wants = Want::kinds(b"12");
    wants.push(Want::columns(&["mine"]));
    wants.extend((1..=rows).map(|row| Want::row(&[&format!("{tag}/{row}")])));
    wants.push(Want::Tag(format!("SELECT {rows}")));
    session.send(&format!("extended {tag}, {rows} rows"), &bytes.concat())?;
    session.hear(&wants, 'I').map(drop)
}

/// Many batches and queries in one write. An error in one of them ends that one only.
pub(super) fn pipeline(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let count = 2 + random.below(12);
    let (mut bytes, mut batches) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (tag, other) = (session.tag(), session.tag());
        let mut wants = Vec::new();
        match random.below(8) {
            0..=1 => {
                bytes.extend(query(&format!("select '{tag}' as q")));
                wants.extend(Want::one_row(&["q"], &[&tag]));
            }
            2 => {
                bytes.extend(query(&format!("select '{tag}'::int")));
                wants.push(Want::Error("22P02", tag));
            }
            3 => {
                bytes.extend(call(&tag, &other));
                wants.push(Want::Function(format!("{tag}{other}")));
            }
            4 => {
                bytes.extend([parse("", "select 1 / $1::int"), bind("", "", &["0"]), execute("", 0)].concat());
                bytes.extend(
                    [parse("", &format!("select '{other}'")), bind("", "", &[]), execute("", 0), sync()].concat(),
                );
                // Bind plans the query with the known parameter, so the division fails there.
                wants.push(Want::Any(b'1'));
                wants.push(Want::Error("22012", String::new()));
            }
            _ => {
                for tag in [&tag, &other] {
                    bytes.extend([parse("", "select $1::text"), bind("", "", &[tag]), execute("", 0)].concat());
                    wants.extend(Want::kinds(b"12"));
                    wants.extend([Want::row(&[tag]), Want::tag("SELECT 1")]);
                }
                bytes.extend(sync());
            }
        }
        batches.push(wants);
    }
    session.send(&format!("pipeline of {count}"), &bytes)?;
    batches.iter().try_for_each(|wants| session.hear(wants, 'I').map(drop))
}

/// Describes a statement with Flush, and executes it after the description has arrived.
pub(super) fn extended_in_two_steps(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let bytes = [parse("", &format!("select $1::text as \"{tag}\"")), describe(b'S', ""), frame(b'H', b"")].concat();
    session.send(&format!("prepare {tag}, Flush"), &bytes)?;
    let mut wants = Want::kinds(b"1t");
    wants.push(Want::columns(&[&tag]));
    if let Heard::Failed(_) = session.hear_part(&wants)? {
        session.send("Sync after an error", &sync())?;
        return session.hear_ready("I");
    }
    session.send(&format!("execute {tag}"), &[bind("", "", &[&tag]), execute("", 0), sync()].concat())?;
    let mut wants = Want::kinds(b"2");
    wants.extend([Want::row(&[&tag]), Want::tag("SELECT 1")]);
    session.hear(&wants, 'I').map(drop)
}

/// A portal that is read in several steps.
pub(super) fn portal_in_steps(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let (rows, step) = (1 + random.below(30), 1 + random.below(9));
    let sql = format!("select '{tag}.' || i from generate_series(1, {rows}) i");
    let mut bytes = [parse("", &sql), bind(&tag, "", &[])].concat();
    let mut wants = Want::kinds(b"12");
    let mut read = 0;
    loop {
        bytes.extend(execute(&tag, step as u32));
        let now = step.min(rows - read);
        wants.extend((read + 1..=read + now).map(|row| Want::row(&[&format!("{tag}.{row}")])));
        read += now;
        if now < step {
            wants.push(Want::Tag(format!("SELECT {now}")));
            break;
        }
        wants.push(Want::Any(b's'));
    }
    bytes.extend([frame(b'C', &[b"P", &strings(&[&tag])[..]].concat()), sync()].concat());
    wants.push(Want::Any(b'3'));
    session.send(&format!("portal {tag}: {rows} rows by {step}"), &bytes)?;
    session.hear(&wants, 'I').map(drop)
}

/// COPY to the client, in both protocols.
pub(super) fn copy_out(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let rows = random.below(400);
    let sql = format!("copy (select '{tag}', i from generate_series(1, {rows}) i) to stdout");
    let lines = (1..=rows).map(|row| Want::CopyLine(format!("{tag}\t{row}")));
    let end = [Want::Any(b'c'), Want::Tag(format!("COPY {rows}"))];
    if random.below(2) == 0 {
        let wants: Vec<_> = [Want::Any(b'H')].into_iter().chain(lines).chain(end).collect();
        return session.query(&sql, &wants, 'I').map(drop);
    }
    let wants: Vec<_> = Want::kinds(b"12H").into_iter().chain(lines).chain(end).collect();
    let bytes = [parse("", &sql), bind("", "", &[]), execute("", 0), sync()].concat();
    session.send(&format!("extended {sql}"), &bytes)?;
    session.hear(&wants, 'I').map(drop)
}

/// FunctionCall.
pub(super) fn function_call(session: &mut Session<'_>) -> Result<(), End> {
    let (tag, other) = (session.tag(), session.tag());
    session.send(&format!("FunctionCall {tag} {other}"), &call(&tag, &other))?;
    session.hear(&[Want::Function(format!("{tag}{other}"))], 'I').map(drop)
}

/// A row that is larger than any buffer.
pub(super) fn big_row(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let times = 1 + skewed(random, 6, 17);
    let sql = format!("select repeat('{tag};', {times}) as big, '{tag}' as last");
    let wants = Want::one_row(&["big", "last"], &[&format!("{tag};").repeat(times as usize), &tag]);
    session.query(&sql, &wants, 'I').map(drop)
}

/// A parameter that is larger than any buffer.
pub(super) fn big_parameter(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let text = format!("{tag};").repeat(1 + skewed(random, 6, 16) as usize);
    let sql = "select length($1::text)::text || ' ' || right($1::text, 30)";
    let bytes = [parse("", sql), bind("", "", &[&text]), execute("", 0), sync()].concat();
    session.send(&format!("parameter of {} bytes, {tag}", text.len()), &bytes)?;
    let mut wants = Want::kinds(b"12");
    let end = &text[text.len().saturating_sub(30)..];
    wants.extend([Want::row(&[&format!("{} {end}", text.len())]), Want::tag("SELECT 1")]);
    session.hear(&wants, 'I').map(drop)
}

fn call(left: &str, right: &str) -> Vec<u8> {
    let mut body = TEXTCAT.to_be_bytes().to_vec();
    body.extend([0, 0]);
    body.extend(message::list(&[left, right]));
    body.extend([0, 0]);
    frame(b'F', &body)
}

/// Describe of a statement (`S`) or a portal (`P`).
fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[&[kind][..], &strings(&[name])].concat())
}

/// `textcat(text, text)`.
const TEXTCAT: u32 = 1258;
