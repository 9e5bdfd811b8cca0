//! HBA rules, and ident maps of system users.
//!
//! Input: the ident file up to the first zero byte, then the HBA file.
//!
//! Always true: the first matching rule decides, so later lines change nothing; an invalid line decides nothing; each
//! problem is about an existing line, with a text for a log line.

use auth::{Hba, HbaMethod, IdentMaps, LineOutcome, Visit};

use crate::Target;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "hba",
    run,
    words: &[
        b"local all all trust\n",
        b"hostssl ",
        b"hostnossl ",
        b"host ",
        b"all ",
        b"sameuser ",
        b"replication ",
        b"\"all\" ",
        b"ann,bob ",
        b"@names ",
        b"10.0.0.0/8 ",
        b"10.0.0.1 255.255.255.255 ",
        b"::1/128 ",
        b"scram-sha-256\n",
        b"md5\n",
        b"password\n",
        b"reject\n",
        b"peer map=m\n",
        b"cert map=\"m\"\n",
        b"ldap ldapserver=h ldapbasedn=\"o=x\" ldapbindpasswd=p\n",
        b"ldapurl=\"ldaps://h/o=x?uid?sub\"",
        b"m root ann\n",
        b"#",
        b"\0",
        b"\xff",
    ],
    bytes_max: 400,
};

/// Parses the files and asks for decisions.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut files = input.splitn(2, |&byte| byte == 0);
    let (maps, rules) = (files.next().unwrap_or_default(), files.next().unwrap_or_default());
    let (maps, map_problems) = IdentMaps::parse(maps);
    assert!(map_problems.iter().all(|problem| !problem.text.contains(char::is_control)), "{map_problems:?}");
    let text = String::from_utf8_lossy(rules);
    let lines: Vec<&str> = text.lines().collect();
    let (hba, problems) = read(&lines, &maps);
    assert!(problems.windows(2).all(|pair| pair[0].0 < pair[1].0), "problems out of order");
    assert!(
        problems.iter().all(|&(line, _)| (1..=lines.len()).contains(&line)),
        "a problem of a line that is not there"
    );
    let decided = decisions(&hba);

    let is_bad = |number: usize| problems.iter().any(|&(line, is_kept)| line == number && !is_kept);
    let good: Vec<&str> = (1..).zip(&lines).map(|(number, line)| if is_bad(number) { "" } else { line }).collect();
    let (again, rest) = read(&good, &maps);
    assert!(rest.iter().all(|&(_, is_kept)| is_kept), "a line is wrong only now");
    assert_eq!(decisions(&again), decided, "a line that is no rule decides");

    let (half, _) = read(&lines[..lines.len() / 2], &maps);
    for (early, late) in decisions(&half).iter().zip(&decided) {
        assert!(early.is_none() || early == late, "a later line takes a decision back");
    }
}

fn read(lines: &[&str], maps: &IdentMaps) -> (Hba, Vec<(usize, bool)>) {
    let named = |name: &str| match name {
        "names" => Ok(b"ann\nbob, \"all\"\n".to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let (hba, problems) = Hba::parse(lines.join("\n").as_bytes(), maps, &named);
    assert!(problems.iter().all(|problem| !problem.text.contains(char::is_control)), "{problems:?}");
    (hba, problems.iter().map(|problem| (problem.line, problem.outcome == LineOutcome::Kept)).collect())
}

/// The decisions for some connections.
fn decisions(hba: &Hba) -> Vec<Option<HbaMethod>> {
    let mut decisions = Vec::new();
    for from in [None, Some("10.0.0.1"), Some("::1"), Some("::ffff:10.0.0.1")] {
        for (database, user) in [("shop", "ann"), ("all", "bob"), ("ann", "ann"), ("replication", "eve")] {
            for (is_tls, is_replication) in [(false, false), (true, false), (false, true)] {
                let from = from.map(|address| address.parse().expect("an address"));
                let visit = Visit { from, is_tls, database, user, is_replication };
                decisions.push(hba.method_for(&visit).cloned());
            }
        }
    }
    decisions
}
