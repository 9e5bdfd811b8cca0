//! Messages and bursts by short names, and the parts of programs that consist of them.
//!
//! Always true: these parts keep the rules of `rules`.
//! Not here: how often each part is used (`generate`).

use tests::message::{frame, strings};

use super::dice::Dice;
use super::program::{Burst, Message, Then};
use super::sql::{Pencil, Statement, Values, setting};

pub(super) fn query(sql: &str) -> Message {
    Message::new(&["Query", sql])
}

pub(super) fn sync() -> Message {
    Message::new(&["Sync"])
}

pub(super) fn flush() -> Message {
    Message::new(&["Flush"])
}

pub(super) fn parse(name: &str, sql: &str) -> Message {
    Message::new(&["Parse", name, sql])
}

pub(super) fn execute(portal: &str, rows: u64) -> Message {
    Message::new(&["Execute", portal, &rows.to_string()])
}

pub(super) fn describe(kind: &str, name: &str) -> Message {
    Message::new(&["Describe", kind, name])
}

pub(super) fn close(kind: &str, name: &str) -> Message {
    Message::new(&["Close", kind, name])
}

/// A Bind; sometimes with NULL, with one value too many, or with results in binary.
pub(super) fn bind(dice: &mut Dice, portal: &str, statement: &str, values: &[String]) -> Message {
    let mut values: Vec<Option<&str>> = values.iter().map(|value| Some(value.as_str())).collect();
    if dice.percent(3) {
        values.push(Some("too many"));
    }
    if dice.percent(4)
        && let Some(value) = values.last_mut()
    {
        *value = None;
    }
    let plain: Option<Vec<&str>> = values.iter().copied().collect();
    match plain.filter(|_| dice.percent(90)) {
        Some(plain) => Message::new(&[&["Bind", portal, statement], &plain[..]].concat()),
        None => Message::raw(binary_bind(portal, statement, &values)),
    }
}

fn binary_bind(portal: &str, statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    let mut body = strings(&[portal, statement]);
    body.extend([0, 0]);
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
        body.extend(value.unwrap_or_default().bytes());
    }
    body.extend([0, 1, 0, 1]);
    frame(b'B', &body)
}

/// A FunctionCall, valid or invalid.
pub(super) fn function_call(dice: &mut Dice) -> Message {
    let calls: [&[&str]; 5] = [
        &["FunctionCall", "177", "40", "2"],
        &["FunctionCall", "154", "1", "0"],
        &["FunctionCall", "141", "6", "seven"],
        &["FunctionCall", "999999", "1"],
        &["FunctionCall", "177", "1"],
    ];
    Message::new(dice.pick(&calls))
}

/// A Query with one statement or several.
pub(super) fn simple(dice: &mut Dice, seat: usize) -> Message {
    let count = dice.weighed(&[(70, 1), (15, 2), (10, 3), (5, 4)]);
    let texts: Vec<_> = (0..count).map(|_| Pencil::new(dice, seat, Values::Inside).any().text).collect();
    query(&texts.join("; "))
}

/// A Query that may also begin or end transactions. The caller closes with a ROLLBACK.
pub(super) fn simple_with_control(dice: &mut Dice, seat: usize) -> Message {
    let count = dice.between(1, 5);
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(match dice.percent(50) {
            true => control(dice),
            false => Pencil::new(dice, seat, Values::Inside).any().text,
        });
    }
    query(&texts.join("; "))
}

pub(super) fn control(dice: &mut Dice) -> String {
    dice.pick(&["begin", "begin", "commit", "commit", "rollback", "commit and chain", "savepoint a", "end"]).to_string()
}

/// What a batch may contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taste<'a> {
    pub(super) seat: usize,
    pub(super) startup: &'a [(String, String)],
    /// Whether it may begin and end transactions.
    pub(super) has_control: bool,
}

/// A batch of the extended protocol with its Sync at the end; in several bursts where the client waits for the answer to a
/// Flush.
pub(super) fn batch(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let mut bursts = vec![Burst::new(Vec::new())];
    for _ in 0..dice.between(1, 4) {
        let is_waited_for = dice.percent(12);
        let mut messages = piece(dice, taste);
        if is_waited_for {
            messages.push(flush());
        }
        if let Some(burst) = bursts.last_mut() {
            burst.messages.extend(messages);
        }
        if is_waited_for {
            bursts.push(Burst::new(Vec::new()));
        }
    }
    if let Some(burst) = bursts.last_mut() {
        burst.messages.push(sync());
    }
    bursts
}

/// From the Parse of the unnamed statement to its last Execute, or something unusual.
fn piece(dice: &mut Dice, taste: Taste<'_>) -> Vec<Message> {
    match dice.between(0, 99) {
        0 | 1 => return vec![query("select 'a Query in a batch'")],
        2 => return vec![function_call(dice)],
        3..=6 => return vec![missing(dice)],
        _ => {}
    }
    let statement = match dice.between(0, 99) {
        0..=7 if taste.has_control => Statement { text: control(dice), ..Statement::default() },
        8..=12 => Statement { text: setting(dice, taste.startup), ..Statement::default() },
        13 => Statement { text: "select 1; select 2".to_string(), ..Statement::default() },
        _ => Pencil::new(dice, taste.seat, Values::Apart).any(),
    };
    let mut messages = vec![parse("", &statement.text)];
    if dice.percent(30) {
        messages.push(describe("S", ""));
    }
    for _ in 0..dice.weighed(&[(85, 1), (10, 2), (5, 0)]) {
        messages.extend(portal(dice, "", &statement.values));
    }
    if dice.percent(5) {
        messages.push(close("S", ""));
    }
    messages
}

/// Something that gives, uses or destroys the unnamed statement, or fails. `values` are those for the last one given.
pub(super) fn use_unnamed(dice: &mut Dice, seat: usize, values: &mut Vec<String>) -> Vec<Message> {
    match dice.between(0, 99) {
        // What is given can be told from all others by its rows.
        0..=19 => {
            values.clear();
            vec![parse("", &format!("select 'unnamed {:x}'", dice.seed()))]
        }
        20..=27 => {
            let statement = Pencil::new(dice, seat, Values::Apart).any();
            *values = statement.values;
            vec![parse("", &statement.text)]
        }
        28..=31 => vec![parse("", "select nothing")],
        32..=34 => vec![parse("", "select 1/0"), Message::new(&["Bind", "", ""])],
        35..=74 => portal(dice, "", values),
        75..=81 => vec![describe("S", "")],
        82..=86 => vec![close("S", "")],
        87..=88 => vec![query("select 'a Query'")],
        89..=92 => vec![sync()],
        _ => vec![missing(dice)],
    }
}

/// From the Bind of a statement to the last Execute of its portal.
pub(super) fn portal(dice: &mut Dice, statement: &str, values: &[String]) -> Vec<Message> {
    let name = dice.pick(&["", "", "", "", "p", "other"]);
    let mut messages = vec![bind(dice, name, statement, values)];
    if dice.percent(50) {
        messages.push(describe("P", name));
    }
    if dice.percent(30) {
        for _ in 0..dice.between(1, 4) {
            messages.push(execute(name, dice.between(1, 6)));
        }
    }
    if dice.percent(85) {
        messages.push(execute(name, 0));
    }
    if dice.percent(12) {
        messages.push(close("P", name));
    }
    if dice.percent(8) {
        messages.push(flush());
    }
    messages
}

/// A message that names an object that does not exist.
pub(super) fn missing(dice: &mut Dice) -> Message {
    match dice.between(0, 5) {
        0 | 1 => describe("P", "missing"),
        2 | 3 => execute("missing", 0),
        4 => close("S", "missing"),
        _ => close("P", "missing"),
    }
}

/// COPY from the client: successful, refused, aborted, or with too many messages, written in many ways.
pub(super) fn copy_in(dice: &mut Dice, seat: usize) -> Vec<Burst> {
    let is_pipelined = dice.percent(30);
    let times = if dice.percent(12) { 2 } else { 1 };
    let mut bursts = Vec::new();
    for _ in 0..times {
        bursts.extend(one_copy_in(dice, seat));
    }
    if is_pipelined {
        let last = bursts.len() - 1;
        bursts[..last].iter_mut().for_each(|burst| burst.then = Then::GoOn);
        if dice.percent(50) {
            let messages = bursts.into_iter().flat_map(|burst| burst.messages).collect();
            bursts = vec![Burst::new(messages)];
        }
    }
    bursts
}

fn one_copy_in(dice: &mut Dice, seat: usize) -> Vec<Burst> {
    let is_extended = dice.percent(50);
    let table = if dice.percent(5) { "nowhere".to_string() } else { format!("item{seat}") };
    let sql = format!("copy {table} (name, amount) from stdin");
    let first = match is_extended {
        true => copy_batch(dice, &sql),
        false => vec![query(&match dice.between(0, 9) {
            0 => format!("select 'before'; {sql}"),
            1 => format!("{sql}; select 'after'"),
            2 => format!("{sql}; select 1/0; select 'never'"),
            _ => sql,
        })],
    };
    let mut bursts = vec![Burst::new(first)];
    let mut rows: Vec<Message> = rows(dice).into_iter().map(|piece| Message::new(&["CopyData", &piece])).collect();
    if dice.percent(10) {
        rows.push(flush());
    }
    while dice.percent(25) && rows.len() > 1 {
        let rest = rows.split_off(rows.len() / 2);
        bursts.push(Burst {
            then: dice.pick(&[Then::GoOn, Then::Wait]),
            ..Burst::new(std::mem::replace(&mut rows, rest))
        });
    }
    rows.push(match dice.percent(85) {
        true => Message::new(&["CopyDone"]),
        false => Message::new(&["CopyFail", "no more"]),
    });
    if is_extended {
        rows.push(sync());
    }
    bursts.push(Burst::new(rows));
    bursts
}

fn copy_batch(dice: &mut Dice, sql: &str) -> Vec<Message> {
    let mut messages = vec![parse("", sql), Message::new(&["Bind", "", ""])];
    if dice.percent(50) {
        messages.push(describe("P", ""));
    }
    messages.push(execute("", 0));
    match dice.between(0, 2) {
        0 => messages.push(sync()),
        1 => messages.push(flush()),
        _ => {}
    }
    messages
}

/// Rows in pieces that may end anywhere; one row may be invalid.
fn rows(dice: &mut Dice) -> Vec<String> {
    let count = dice.weighed(&[(80, 8), (15, 300), (5, 9_000)]);
    let count = dice.between(0, count);
    let bad = dice.percent(40).then(|| dice.between(0, count));
    let mut lines = Vec::new();
    for number in 0..count {
        lines.push(match Some(number) == bad {
            false => format!("c{number}\t{number}\n"),
            true => dice.pick(&["only one column\n", "n1\t5\n", "low\t-5\n", "x\ty\n", "a\t1\ttoo many\n"]).to_string(),
        });
    }
    if dice.percent(10) {
        lines.push("\\.\n".to_string());
    }
    let text = lines.concat();
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    let step = dice.weighed(&[(60, 12), (25, 60), (15, 50_000)]);
    while !rest.is_empty() && pieces.len() < PIECES_MAX {
        let (piece, left) = rest.split_at((dice.between(1, step) as usize).min(rest.len()));
        pieces.push(piece.to_string());
        rest = left;
    }
    pieces.push(rest.to_string());
    pieces
}

/// Rows are sent in at most so many messages; the last message has the rest.
const PIECES_MAX: usize = 200;
