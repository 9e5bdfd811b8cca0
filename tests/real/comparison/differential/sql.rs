//! The statements of the programs.
//!
//! Always true: they keep rules 5 and 6 of `rules`; each touches the tables of one seat only.
//! Not here: in which messages they are sent (`generate`).

use super::dice::Dice;

/// The schema of every database of the comparison, with the tables of one seat in place of `$`.
pub(super) const SCHEMA: &str = "
    create table item$ (id serial primary key, name text unique, amount int check (amount >= 0), note text);
    create table entry$ (item int references item$ deferrable initially deferred, body text);";

/// Run before each program, with the tables of one seat in place of `$`. The physical order of the rows may vary: no
/// statement here shows it.
pub(super) const SEED: &str = "delete from entry$; delete from item$; select setval('item$_id_seq', 1, false);
    insert into item$ (name, amount) select 'n' || g, g * 10 from generate_series(1, 12) g;";

/// Run now and then before [`SEED`], so that dead rows do not accumulate. Much slower.
pub(super) const SWEEP: &str = "truncate item$, entry$;";

/// Run after each program, with the tables of one seat in place of `$`.
pub(super) const SCENE: &str = "begin; lock table item$, entry$;
    select id, name, amount, md5(note), null, null from item$
        union all select null, null, null, null, item, body from entry$ order by 1, 2, 3, 4, 5, 6;
    commit";

/// Functions that every database of the comparison has once.
pub(super) const FUNCTIONS: &str = "
    create function forget() returns text language plpgsql as
        $f$ begin execute 'deallocate all'; return 'forgotten'; end $f$;
    create function say(words text) returns text language plpgsql as
        $f$ begin raise notice '%', words; return 'said ' || words; end $f$;
    create function blow(words text) returns text language plpgsql as
        $f$ begin raise exception 'blown %', words using detail = 'a detail', hint = 'a hint', errcode = 'P0777'; end $f$;";

/// A statement, perhaps with values for `$1`, `$2`...
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<String>,
}

/// Whether values are written into the text or passed as parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    Inside,
    Apart,
}

/// Writes statements for one seat.
#[derive(Debug)]
pub(super) struct Pencil<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) seat: usize,
    values: Values,
    statement: Statement,
}

impl<'a> Pencil<'a> {
    pub(super) fn new(dice: &'a mut Dice, seat: usize, values: Values) -> Self {
        Self { dice, seat, values, statement: Statement::default() }
    }

    /// Any statement that may stand anywhere.
    pub(super) fn any(mut self) -> Statement {
        let write = self.dice.weighed(&KINDS);
        let text = write(&mut self);
        self.statement.text = text;
        self.statement
    }

    /// A statement that returns some rows.
    pub(super) fn rows(mut self) -> Statement {
        self.statement.text = rows(&mut self);
        self.statement
    }

    fn number(&mut self, number: u64) -> String {
        self.value(&number.to_string(), "int")
    }

    fn text(&mut self, text: &str) -> String {
        self.value(text, "text")
    }

    fn value(&mut self, value: &str, kind: &str) -> String {
        if self.values == Values::Inside || self.dice.percent(30) {
            return match kind {
                "int" => value.to_string(),
                _ => format!("'{}'", value.replace('\'', "''")),
            };
        }
        // Sometimes a value that its type refuses.
        let given = if kind == "int" && self.dice.percent(4) { "none" } else { value };
        self.statement.values.push(given.to_string());
        format!("${}::{kind}", self.statement.values.len())
    }

    fn length(&mut self) -> u64 {
        match self.dice.between(0, 19) {
            0 => self.dice.between(100_000, 300_000),
            1..=3 => self.dice.between(4_000, 40_000),
            _ => self.dice.between(1, 600),
        }
    }
}

type Kind = fn(&mut Pencil<'_>) -> String;

const KINDS: [(u64, Kind); 14] = [
    (14, constant),
    (12, rows),
    (8, repeated),
    (10, insert),
    (8, change),
    (12, wrong),
    (6, half_wrong),
    (8, notice),
    (4, nothing),
    (8, shown),
    (5, large_in),
    (6, savepoint),
    (5, cursor),
    (6, copy_out),
];

fn constant(p: &mut Pencil<'_>) -> String {
    match p.dice.between(0, 4) {
        0 => "select 1".to_string(),
        1 => format!("select {} + {}", p.number(40), p.number(2)),
        2 => format!("select {}, null::int as nothing, {}", p.text("it's"), p.number(7)),
        3 => "values (1, 'one'), (2, 'two'), (3, null)".to_string(),
        _ => format!("select 'grün' || {} as \"Wörter\"", p.text("ß \u{20ac}")),
    }
}

fn rows(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    match p.dice.between(0, 4) {
        0 => format!("select id, name, amount, note from item{seat} order by id"),
        1 => {
            let least = p.dice.between(0, 90);
            format!("select name from item{seat} where amount > {} order by id", p.number(least))
        }
        2 => format!("select count(*), sum(amount), max(id) from item{seat}"),
        3 => {
            let count = p.dice.between(0, 300);
            format!("select g, g * g as square from generate_series(1, {}) g", p.number(count))
        }
        _ => {
            format!("select i.name, e.body from item{seat} i join entry{seat} e on e.item = i.id order by i.id, e.body")
        }
    }
}

fn repeated(p: &mut Pencil<'_>) -> String {
    let length = p.length();
    match p.dice.percent(50) {
        true => format!("select repeat('x', {})", p.number(length)),
        false => format!("select g, repeat(chr(97 + g), {}) from generate_series(0, 9) g", p.number(length / 10)),
    }
}

fn insert(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    let number = p.dice.between(1, 20);
    match p.dice.between(0, 3) {
        // Half of these names exist already.
        0 | 1 => {
            let name = p.text(&format!("n{number}"));
            format!("insert into item{seat} (name, amount) values ({name}, {}) returning id", p.number(number))
        }
        2 => format!("insert into item{seat} (name, amount) select 'm' || g, g from generate_series(1, 5) g"),
        // Half of these items do not exist, which is reported at the end of the transaction.
        _ => format!("insert into entry{seat} values ({}, {})", p.number(number), p.text("body")),
    }
}

fn change(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    let number = p.dice.between(1, 14);
    match p.dice.between(0, 4) {
        0 => format!("update item{seat} set amount = amount + 1 where id = {} returning amount", p.number(number)),
        // Below zero for the first three items, which the check constraint refuses.
        1 => format!("update item{seat} set amount = amount - 35 where id = {}", p.number(number)),
        2 => format!("delete from item{seat} where id = {}", p.number(number)),
        3 => format!("update item{seat} set amount = amount + 5 where id > {}", p.number(number)),
        _ => format!("update item{seat} set note = {} where id = {}", p.text("noted"), p.number(number)),
    }
}

fn wrong(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    match p.dice.between(0, 9) {
        0 | 1 => format!("select {} / 0", p.number(1)),
        2 => "selec 1".to_string(),
        3 => "select * from nowhere".to_string(),
        4 => format!("insert into item{seat} (name) values ('n1')"),
        5 => format!("update item{seat} set amount = -1 where id = {}", p.number(3)),
        6 => format!("select blow({})", p.text("up")),
        7 => "select 'x'::int".to_string(),
        8 => "select 'open".to_string(),
        _ => format!("select repeat('e', {})::int", p.dice.between(10, 30_000)),
    }
}

/// Some rows, then an error.
fn half_wrong(p: &mut Pencil<'_>) -> String {
    let at = p.dice.between(1, 400);
    format!("select 1000 / ({} - g), repeat('y', 50) from generate_series(1, 500) g", p.number(at))
}

fn notice(p: &mut Pencil<'_>) -> String {
    match p.dice.between(0, 4) {
        0 => format!("select say({})", p.text("a word")),
        1 => "do $$ begin raise notice 'noted'; raise warning 'warned'; end $$".to_string(),
        2 => format!("do $$ begin raise notice '%', repeat('n', {}); end $$", p.length()),
        3 => "do $$ begin raise notice 'first'; perform blow('then'); end $$".to_string(),
        _ => "select say(g::text) from generate_series(1, 40) g".to_string(),
    }
}

fn nothing(p: &mut Pencil<'_>) -> String {
    p.dice.pick(&["", ";", "-- nothing", "/* nothing */", ";;"]).to_string()
}

/// Answers that depend on the tracked parameters.
fn shown(p: &mut Pencil<'_>) -> String {
    match p.dice.between(0, 6) {
        0 => "show timezone".to_string(),
        1 => "show datestyle".to_string(),
        2 => "select timestamptz '2024-02-03 04:05:06+00', date '2024-02-03'".to_string(),
        3 => "select current_setting('application_name')".to_string(),
        4 => "select 'a\\\\b', e'c\\td', length('ä')".to_string(),
        5 => "select current_setting('client_encoding'), current_setting('standard_conforming_strings')".to_string(),
        _ => "show work_mem".to_string(),
    }
}

fn large_in(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    let length = p.length() as usize;
    let text = p.text(&"l".repeat(length));
    match p.dice.percent(50) {
        true => format!("select length({text})"),
        false => format!("update item{seat} set note = {text} where id = 2"),
    }
}

/// Fails outside a transaction, and where no savepoint has the name.
fn savepoint(p: &mut Pencil<'_>) -> String {
    let name = p.dice.pick(&["a", "b"]);
    let verb = p.dice.pick(&["savepoint", "savepoint", "rollback to savepoint", "rollback to", "release"]);
    format!("{verb} {name}")
}

/// Fails outside a transaction.
fn cursor(p: &mut Pencil<'_>) -> String {
    match p.dice.between(0, 4) {
        0 | 1 => "declare k cursor for select g from generate_series(1, 20) g".to_string(),
        2 => format!("fetch {} from k", p.dice.between(1, 9)),
        3 => "move 2 in k".to_string(),
        _ => "close k".to_string(),
    }
}

fn copy_out(p: &mut Pencil<'_>) -> String {
    let seat = p.seat;
    match p.dice.between(0, 3) {
        0 => format!("copy (select * from item{seat} order by id) to stdout"),
        1 => format!("copy (select name, amount from item{seat} order by id) to stdout (format csv, header)"),
        2 => format!("copy (select g, repeat('o', {}) from generate_series(1, 30) g) to stdout", p.length() / 8),
        _ => "copy (select 100 / (50 - g) from generate_series(1, 90) g) to stdout".to_string(),
    }
}

/// Sets a tracked parameter, or a parameter for the transaction only. Resets neither startup parameters nor
/// `application_name`, which servers get from the clients of the pool.
pub(super) fn setting(dice: &mut Dice, startup: &[(String, String)]) -> String {
    let values = dice.pick(&PARAMETERS);
    let is_given = values.0 == "application_name" || startup.iter().any(|(name, _)| name == values.0);
    let value = dice.pick(values.1);
    match dice.between(0, 9) {
        0..=4 => format!("set {} = '{value}'", values.0),
        5 if !is_given => format!("reset {}", values.0),
        6 if !is_given => format!("set {} to default", values.0),
        7 => format!("set local intervalstyle = '{}'", dice.pick(&["sql_standard", "iso_8601"])),
        8 => "set local session authorization v".to_string(),
        _ => format!("set local {} = '{value}'", values.0),
    }
}

/// A statement that only a client with a dedicated server may send.
pub(super) fn of_session(dice: &mut Dice, seat: usize, startup: &[(String, String)]) -> String {
    match dice.between(0, 14) {
        0 => "create temp table mine (a int, b text)".to_string(),
        1 => "insert into mine select g, 'b' || g from generate_series(1, 5) g".to_string(),
        2 => "select sum(a) from mine".to_string(),
        3 => "drop table mine".to_string(),
        4 => format!("prepare q as select count(*) from item{seat} where amount > 20"),
        5 => "execute q".to_string(),
        6 => "deallocate q".to_string(),
        7 => "set work_mem = '3MB'".to_string(),
        8 => format!("listen channel{seat}"),
        9 => format!("notify channel{seat}, 'a word'"),
        10 => "declare h cursor with hold for select g from generate_series(1, 9) g".to_string(),
        11 => "fetch 2 from h".to_string(),
        12 => format!("select pg_advisory_lock({seat})"),
        13 if startup.is_empty() => "discard all".to_string(),
        _ => "set role v".to_string(),
    }
}

/// Tracked parameters, with values in PostgreSQL's own spelling.
pub(super) const PARAMETERS: [(&str, &[&str]); 5] = [
    ("TimeZone", &["UTC", "Europe/Berlin", "Asia/Tokyo", "America/Lima"]),
    ("DateStyle", &["ISO, MDY", "German, DMY", "SQL, DMY", "Postgres, MDY"]),
    ("client_encoding", &["UTF8", "LATIN1", "SQL_ASCII", "EUC_JP"]),
    ("standard_conforming_strings", &["on", "off"]),
    ("application_name", &["shop", "Shop", "it's", "back\\slash", ""]),
];
