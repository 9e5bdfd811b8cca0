//! Programs from seeds.
//!
//! Always true: the same seed makes the same program, and it keeps the rules of `rules`.
//! Not here: the rules, the messages (`messages`), the statements (`sql`).

use super::dice::Dice;
use super::messages::{self, Taste, batch, bind, close, copy_in, describe, execute, missing, parse, query, sync};
use super::program::{Burst, Confinement, Cut, Ending, Hurry, Message, Program, Then, Unit};
use super::rules;
use super::sql::{PARAMETERS, Pencil, Values, of_session, setting};

/// The program of this seed.
pub(super) fn program(seed: u64, seat: usize, confinement: Confinement) -> Program {
    let mut dice = Dice::new(seed);
    let startup = startup(&mut dice);
    let taste = Taste { seat, startup: &startup, has_control: false };
    let mut units = Vec::new();
    for _ in 0..dice.between(1, 8) {
        let mut unit = match confinement {
            Confinement::Session if dice.percent(40) => session_unit(&mut dice, taste),
            _ => unit(&mut dice, taste),
        };
        unit.bursts.iter_mut().for_each(|burst| burst.cut = cut(&mut dice, burst));
        units.push(unit);
    }
    let ending = if dice.percent(80) { Ending::Terminate } else { Ending::Vanish };
    let hurry = if dice.percent(10) { Hurry::Yes } else { Hurry::No };
    let program = Program { confinement, startup, hurry, units, ending };
    match ending {
        Ending::Terminate => program,
        Ending::Vanish => broken_off(&mut dice, program),
    }
}

fn startup(dice: &mut Dice) -> Vec<(String, String)> {
    let mut startup: Vec<(String, String)> = Vec::new();
    for (name, values) in PARAMETERS {
        if dice.percent(12) {
            startup.push((name.to_string(), dice.pick(values).to_string()));
        }
    }
    startup
}

fn unit(dice: &mut Dice, taste: Taste<'_>) -> Unit {
    let bursts = match dice.between(0, 99) {
        0..=17 => queries(dice, taste),
        18..=22 => closed(dice, |dice| vec![Burst::new(vec![messages::simple_with_control(dice, taste.seat)])]),
        23..=40 => batches(dice, taste),
        41..=45 => unnamed(dice, taste),
        46..=50 => closed(dice, |dice| batches(dice, Taste { has_control: true, ..taste })),
        51..=73 => transaction(dice, taste),
        74..=86 => copy_in(dice, taste.seat),
        87..=88 => vec![Burst::new(vec![messages::function_call(dice)])],
        89..=92 => vec![Burst::new(vec![query(&setting(dice, taste.startup))])],
        93..=94 => named(dice, taste, Text::Shared),
        95..=97 => dropped(dice),
        _ => strange(dice),
    };
    Unit { bursts }
}

/// One Query, or several in a pipeline.
fn queries(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let count = dice.weighed(&[(70, 1), (20, 3), (10, 8)]);
    vec![Burst::new((0..count).map(|_| messages::simple(dice, taste.seat)).collect())]
}

/// Batches one after another, or in a pipeline over several Syncs.
fn batches(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let count = dice.weighed(&[(60, 1), (25, 2), (15, 5)]);
    let bursts = (0..count).flat_map(|_| batch(dice, taste)).collect();
    join(dice, bursts)
}

/// Joins some bursts into one write, and sends some without waiting for the answer.
fn join(dice: &mut Dice, bursts: Vec<Burst>) -> Vec<Burst> {
    let mut joined: Vec<Burst> = Vec::new();
    let way = dice.between(0, 3);
    for burst in bursts {
        match joined.last_mut() {
            Some(before) if way == 0 => before.messages.extend(burst.messages),
            Some(before) => {
                before.then = if way == 1 || dice.percent(15) { Then::GoOn } else { Then::Wait };
                joined.push(burst);
            }
            None => joined.push(burst),
        }
    }
    joined
}

/// Bursts that may leave a transaction open, followed by its end.
fn closed(dice: &mut Dice, inner: impl FnOnce(&mut Dice) -> Vec<Burst>) -> Vec<Burst> {
    let mut bursts = inner(dice);
    bursts.push(Burst::new(vec![query(dice.pick(&["rollback", "commit"]))]));
    bursts
}

fn transaction(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let begin = ["begin", "begin", "begin", "begin read only", "begin isolation level repeatable read"];
    let mut bursts = vec![Burst::new(vec![query(dice.pick(&begin))])];
    for _ in 0..dice.between(1, 6) {
        match dice.between(0, 99) {
            0..=29 => bursts.extend(queries(dice, taste)),
            30..=49 => bursts.extend(batches(dice, taste)),
            50..=54 => bursts.extend(unnamed(dice, taste)),
            55..=64 => bursts.push(Burst::new(vec![query(&setting(dice, taste.startup))])),
            65..=74 => bursts.extend(copy_in(dice, taste.seat)),
            75..=86 => bursts.extend(named(dice, taste, Text::Own)),
            87..=95 => bursts.extend(suspended(dice, taste)),
            _ => bursts.push(Burst::new(vec![messages::function_call(dice)])),
        }
    }
    bursts.push(Burst::new(vec![query(dice.pick(&["commit", "commit", "rollback"]))]));
    bursts
}

/// Whether other programs may prepare the same text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Shared,
    /// In a failed transaction whose failure the pooler does not know yet, PostgreSQL refuses a Parse that the pooler
    /// answers itself.
    Own,
}

/// A named statement, used in several batches (outside a transaction possibly on several servers), and closed.
fn named(dice: &mut Dice, taste: Taste<'_>, text: Text) -> Vec<Burst> {
    let name = format!("s{:x}", dice.seed());
    let mut statement = Pencil::new(dice, taste.seat, Values::Apart).any();
    if text == Text::Own {
        statement.text += &format!(" /* {name} */");
    }
    let mut first = vec![parse(&name, &statement.text)];
    if dice.percent(50) {
        first.push(describe("S", &name));
    }
    // In a transaction that fails, which of two errors comes next may depend on which statements the pooler is sure of.
    let is_given_anew = text == Text::Shared && dice.percent(15);
    if is_given_anew {
        first.extend([close("S", &name), parse(&name, &statement.text)]);
    }
    if text == Text::Shared && dice.percent(15) {
        // Another name for the same text.
        first.extend([parse(&format!("{name}b"), &statement.text), describe("S", &format!("{name}b"))]);
    }
    first.push(sync());
    let mut bursts = vec![Burst::new(first)];
    for _ in 0..dice.between(1, 3) {
        let mut messages = messages::portal(dice, &name, &statement.values);
        messages.push(sync());
        bursts.push(Burst::new(messages));
    }
    bursts.push(Burst::new(vec![close("S", &name), sync()]));
    // If that has failed, it would be known too late for the next batch (decision 0007, "What it does not do").
    if is_given_anew { bursts } else { join(dice, bursts) }
}

/// A name that is given, used, closed and dropped by SQL in any order, in pipelines and in transactions. It may be longer than the
/// 63 bytes that PostgreSQL looks at.
fn dropped(dice: &mut Dice) -> Vec<Burst> {
    let name = format!("{DROPPED}{:x}", dice.seed());
    let length = if dice.percent(30) { 63 } else { 0 };
    let name = format!("{name:n<length$}");
    let steps = dice.between(2, 7);
    let mut bursts = vec![Burst::new(give(dice, &name))];
    for _ in 0..steps {
        let spelled =
            if length > 0 && dice.percent(60) { format!("{name}{}", dice.between(0, 99)) } else { name.clone() };
        let messages = match dice.between(0, 99) {
            0..=29 => give(dice, &spelled),
            30..=49 => vec![bind(dice, "", &spelled, &[]), execute("", 0), sync()],
            50..=56 => vec![describe("S", &spelled), sync()],
            57..=63 => vec![close("S", &spelled), sync()],
            64..=69 => vec![query(&format!("execute {spelled}"))],
            70..=74 => vec![missing(dice), sync()],
            _ => drop_by_sql(dice, &spelled),
        };
        bursts.push(Burst::new(messages));
    }
    bursts = join(dice, bursts);
    match dice.between(0, 9) {
        0..=4 => bursts,
        5 | 6 => drop_by_function(dice, &name),
        _ => {
            bursts.insert(0, Burst::new(vec![query("begin")]));
            bursts.push(Burst::new(vec![query(dice.pick(&["commit", "rollback"]))]));
            bursts
        }
    }
}

/// A Parse of a text that nobody else has, perhaps with its execution.
fn give(dice: &mut Dice, name: &str) -> Vec<Message> {
    let mut messages = vec![parse(name, &format!("select 'given {:x}'", dice.seed()))];
    if dice.percent(70) {
        messages.extend([bind(dice, "", name, &[]), execute("", 0)]);
    }
    messages.push(sync());
    messages
}

fn drop_by_sql(dice: &mut Dice, name: &str) -> Vec<Message> {
    let sql = match dice.between(0, 9) {
        0..=3 => format!("deallocate {name}"),
        4 => format!("DEALLOCATE PREPARE \"{name}\""),
        5 => format!("select 1; deallocate {name}"),
        6 => format!("deallocate {name}; select 1/0"),
        _ => "deallocate all".to_string(),
    };
    let batch = vec![parse("", &sql), Message::new(&["Bind", "", ""]), execute("", 0)];
    match dice.between(0, 2) {
        0 => vec![query(&sql)],
        1 => [batch, give(dice, name)].concat(),
        _ => [batch, vec![sync()]].concat(),
    }
}

/// In one transaction, so that the server has the statement: a function, or a DO, drops all statements, and the name is given
/// anew before it is used (decision 0007, "What it does not do").
fn drop_by_function(dice: &mut Dice, name: &str) -> Vec<Burst> {
    let drop =
        dice.pick(&["select forget()", "do $$ begin execute 'deallocate all'; end $$", "select forget(), forget()"]);
    let given = |dice: &mut Dice| {
        let text = format!("select 'given {:x}'", dice.seed());
        vec![parse(name, &text), Message::new(&["Bind", "", name]), execute("", 0), sync()]
    };
    let mut bursts = vec![Burst::new(vec![query("begin")]), Burst::new(given(dice)), Burst::new(vec![query(drop)])];
    bursts.push(Burst::new(given(dice)));
    bursts.push(Burst::new(vec![query("commit")]));
    bursts.push(Burst::new(vec![Message::new(&["Bind", "", name]), execute("", 0), sync()]));
    bursts.push(Burst::new(vec![close("S", name), sync()]));
    bursts
}

/// The unnamed statement over several batches (outside a transaction possibly on several servers), some of which fail before
/// or behind a message that gives one. The first message destroys what there was before, such as a COPY.
fn unnamed(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let mut values = Vec::new();
    let count = dice.between(2, 7);
    let first = dice.pick(&["select 'the first'", "select 'the first' || $1", "select nothing"]);
    let bursts = (0..count).map(|number| {
        let mut messages = if number == 0 { vec![parse("", first)] } else { Vec::new() };
        for _ in 0..dice.between(1, 4) {
            messages.extend(messages::use_unnamed(dice, taste.seat, &mut values));
        }
        messages.push(sync());
        Burst::new(messages)
    });
    let bursts = bursts.collect();
    join(dice, bursts)
}

/// A portal that is read in parts over several Syncs of one transaction.
fn suspended(dice: &mut Dice, taste: Taste<'_>) -> Vec<Burst> {
    let statement = Pencil::new(dice, taste.seat, Values::Apart).rows();
    let bound = bind(dice, "long", "", &statement.values);
    let mut bursts = vec![Burst::new(vec![parse("", &statement.text), bound, execute("long", 2), sync()])];
    for _ in 0..dice.between(1, 4) {
        bursts.push(Burst::new(vec![execute("long", dice.between(1, 50)), sync()]));
    }
    if dice.percent(50) {
        bursts.push(Burst::new(vec![close("P", "long"), sync()]));
    }
    join(dice, bursts)
}

/// Messages that are legal but that no driver sends.
fn strange(dice: &mut Dice) -> Vec<Burst> {
    let data = || Message::new(&["CopyData", "nobody's"]);
    let messages = match dice.between(0, 6) {
        0 => vec![sync()],
        1 => vec![sync(), sync(), sync()],
        2 => vec![messages::flush(), data(), Message::new(&["CopyDone"]), query("select 'after data'")],
        3 => vec![Message::new(&["CopyFail", "nothing"]), sync()],
        4 => vec![missing(dice), sync(), missing(dice), query("select 'skipped or not'"), sync()],
        5 => vec![execute("", 0), sync(), describe("P", ""), sync()],
        _ => vec![query("select 1"), sync(), query("select 2"), missing(dice), sync()],
    };
    vec![Burst::new(messages)]
}

/// A unit that only a client with a dedicated server may send.
fn session_unit(dice: &mut Dice, taste: Taste<'_>) -> Unit {
    let mut bursts = Vec::new();
    for _ in 0..dice.between(1, 3) {
        let sql = of_session(dice, taste.seat, taste.startup);
        let messages = match dice.between(0, 4) {
            0 => vec![parse("kept", &sql), sync()],
            1 => vec![Message::new(&["Bind", "", "kept"]), execute("", 0), sync()],
            2 => {
                bursts.push(Burst::new(vec![parse("", &sql), sync()]));
                vec![Message::new(&["Bind", "", ""]), describe("S", ""), execute("", 0), sync()]
            }
            3 => vec![close("S", "kept"), sync()],
            _ => vec![query(&sql)],
        };
        bursts.push(Burst::new(messages));
    }
    Unit { bursts }
}

/// Removes the end of the last unit, where that is fair, so that the client vanishes in the middle of the unit.
fn broken_off(dice: &mut Dice, program: Program) -> Program {
    let mut shorter = program.clone();
    if let Some(unit) = shorter.units.last_mut() {
        unit.bursts.truncate(dice.between(1, unit.bursts.len() as u64) as usize);
        if let Some(burst) = unit.bursts.last_mut() {
            burst.then = Then::Wait;
        }
    }
    if rules::check(&shorter).is_ok() { shorter } else { program }
}

fn cut(dice: &mut Dice, burst: &Burst) -> Cut {
    let bytes: usize = burst.messages.iter().map(|message| message.bytes().len()).sum();
    match dice.between(0, 99) {
        0..=54 => Cut::Whole,
        55..=59 if bytes < BYTE_BY_BYTE_MAX => Cut::Bytes,
        _ => Cut::Pieces(dice.seed()),
    }
}

/// The beginning of names that may be dropped by SQL, given twice and used without having been given.
pub(super) const DROPPED: &str = "drop_";
/// A burst of at most so many bytes may be written byte by byte.
const BYTE_BY_BYTE_MAX: usize = 300;
