//! Random changes of texts.
//!
//! Always true: the same number gives the same text.
//! Not here: whether it is valid SQL.

/// A random generator without a library: xorshift.
struct Dice(u64);

impl Dice {
    fn among(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % count.max(1)
    }
}

/// The text with this number.
pub(crate) fn text(statements: &[String], number: u64) -> String {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let one = |dice: &mut Dice| match dice.among(3) {
        0 => KEEPSAKES[dice.among(KEEPSAKES.len())].to_owned(),
        _ => statements[dice.among(statements.len())].clone(),
    };
    let mut text = one(&mut dice);
    for _ in 0..dice.among(3) {
        text.push_str([";", "; ", ";\n--;\n", " /* ; */ ; "][dice.among(4)]);
        text.push_str(&one(&mut dice));
    }
    for _ in 0..1 + dice.among(4) {
        change(&mut text, &mut dice);
    }
    text
}

fn change(text: &mut String, dice: &mut Dice) {
    let mut pieces = pieces(text);
    if pieces.is_empty() {
        return;
    }
    let at = dice.among(pieces.len());
    match dice.among(8) {
        0 => drop(pieces.remove(at)),
        1 => pieces.insert(at, pieces[at].clone()),
        2 => {
            let other = dice.among(pieces.len());
            pieces.swap(at, other);
        }
        3 => pieces.insert(at, FILLERS[dice.among(FILLERS.len())].to_owned()),
        4 => pieces[at] = pieces[at].to_uppercase(),
        5 => pieces[at] = pieces[at].to_lowercase(),
        6 => pieces[at] = format!("\"{}\"", pieces[at].to_lowercase()),
        _ => pieces[at] = SEEDS[dice.among(SEEDS.len())].to_owned(),
    }
    *text = pieces.concat();
}

/// Splits a text into words, blanks, and single characters.
fn pieces(text: &str) -> Vec<String> {
    let kind = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 0,
        letter if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut pieces: Vec<String> = Vec::new();
    let mut before = 2;
    for letter in text.chars() {
        let now = kind(letter);
        match pieces.last_mut() {
            Some(piece) if now == before && now != 2 => piece.push(letter),
            _ => pieces.push(letter.into()),
        }
        before = now;
    }
    pieces
}

/// Statements that change sessions.
const KEEPSAKES: [&str; 30] = [
    "SET a.b = 'c'",
    "SET SESSION search_path TO \"A\", b, 'c'",
    "SET LOCAL work_mem = '4MB'",
    "SET TIME ZONE 'UTC'",
    "SET ROLE ann",
    "SET SESSION AUTHORIZATION 'bob'",
    "SET NAMES 'utf8'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "RESET ALL",
    "RESET a.b",
    "DISCARD ALL",
    "DISCARD TEMP",
    "SELECT set_config('app.tenant', $1, false)",
    "SELECT set_config('app.tenant', 'x', true), pg_advisory_lock(1)",
    "SELECT pg_catalog.set_config($1, $2, $3)",
    "SELECT pg_try_advisory_lock_shared(1, 2) FROM t",
    "PREPARE p (int) AS SELECT pg_advisory_lock($1)",
    "EXECUTE p (1)",
    "DEALLOCATE p",
    "LISTEN c",
    "UNLISTEN *",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "SELECT 1 INTO TEMPORARY t",
    "LOAD 'x'",
    "BEGIN",
    "COMMIT AND CHAIN",
    "ROLLBACK TO SAVEPOINT s",
    "SAVEPOINT s",
    "DO $$ BEGIN NULL; END $$",
];

/// What may be inserted between two words.
const FILLERS: [&str; 12] =
    [" ", "\n", "/* x */", "/* /* ; */ */", "-- ' \n", " -- $$\n", "\t", ";", "(", ")", "'", "\""];

/// What may replace a word.
const SEEDS: [&str; 24] = [
    "set",
    "session",
    "local",
    "temp",
    "pg_temp",
    "set_config",
    "pg_advisory_unlock_all",
    "E'\\''",
    "$$x$$",
    "$a$ ; $a$",
    "U&'x'",
    "N'x'",
    "'it''s'",
    "to",
    "=",
    "all",
    "with",
    "hold",
    "into",
    "execute",
    "explain",
    "analyze",
    "1e5",
    "begin",
];
