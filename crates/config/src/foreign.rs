//! Recognizes the configuration file of another pooler, so that one sentence says so instead of an error for each line.
//!
//! Always true: asked only about a file that has mistakes anyway; a file for PgBouncer is never taken for another's.
//! Not here: what the file says.

/// Whose file this seems to be, and the line by which: one that our dialect does not have, counted from 1.
pub(crate) fn owner(text: &[u8]) -> Option<(u32, &'static str)> {
    let mut lines = (1..).zip(text.split(|&byte| byte == b'\n').take(LINES_MAX));
    lines.find_map(|(number, line)| Some((number, owner_of_line(line.trim_ascii())?)))
}

fn owner_of_line(line: &[u8]) -> Option<&'static str> {
    let is_block = line.ends_with(b"{");
    let begins = |word: &&str| line.starts_with(word.as_bytes());
    if is_block && ODYSSEY.iter().any(begins) {
        return Some("Odyssey");
    }
    if PGDOG.iter().any(begins) {
        return Some("PgDog");
    }
    PGCAT.iter().any(begins).then_some("pgcat or pg_doorman")
}

/// The blocks of Odyssey's file: `listen {`, `storage "name" {`, `database "name" {`, `database default {`.
const ODYSSEY: [&str; 4] = ["listen {", "storage ", "database ", "user "];
/// The lists of tables of PgDog's two files.
const PGDOG: [&str; 6] =
    ["[[databases]]", "[[users]]", "[[sharded_tables]]", "[[plugins]]", "[[mirroring]]", "[[omnisharded_tables]]"];
/// The tables of pgcat's file, which pg_doorman has kept.
const PGCAT: [&str; 2] = ["[pools.", "[plugins."];

/// The lines that are looked at: such a line comes early in the files of others.
const LINES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_pooler_has_an_owner() {
        for (text, expected) in [
            ("daemonize no\nstorage \"postgres_server\" {\n\ttype \"remote\"\n}\n", Some("Odyssey")),
            ("listen {\n  host \"*\"\n}", Some("Odyssey")),
            ("\tdatabase default {\r\n", Some("Odyssey")),
            ("[general]\nport = 6432\n\n[[databases]]\nname = \"a\"\n", Some("PgDog")),
            ("[[users]]\nname = \"u\"", Some("PgDog")),
            ("[general]\n[pools.sharded_db]\npool_mode = \"transaction\"", Some("pgcat or pg_doorman")),
            ("[databases]\nuser = host=a\nstorage = host=b\n[pgbouncer]\nlisten_port = 6432\n", None),
            ("", None),
        ] {
            assert_eq!(owner(text.as_bytes()).map(|(_, name)| name), expected, "{text}");
        }
        assert_eq!(owner(b"\r\n# ours\nlisten {\n"), Some((3, "Odyssey")));
    }
}
