//! Rules that a file mutes by a comment: `; lint: ignore L05 the limit is for later`.
//!
//! Always true: a comment is a whole line that begins with `;` or `#`; a mute holds for its whole file, and for no other; without a reason it
//! mutes nothing and is itself a finding.
//! Not here: what is muted.

/// A comment that mutes rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mute {
    /// The rules.
    pub(crate) rules: Vec<String>,
    /// Why; empty if none is given.
    pub(crate) reason: String,
    /// The line, counted from 1.
    pub(crate) line: u32,
}

/// The mutes of a file.
pub(crate) fn mutes(bytes: &[u8]) -> Vec<Mute> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    lines.filter_map(|(line, text)| mute(line, text.trim_ascii())).take(MUTES_MAX).collect()
}

fn mute(line: u32, text: &[u8]) -> Option<Mute> {
    if !text.starts_with(b";") && !text.starts_with(b"#") {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let order = text.trim_start_matches([';', '#']).trim_start().strip_prefix("lint:")?.trim_start();
    let rest = order.strip_prefix("ignore")?;
    let mut words = rest.split_whitespace();
    let rules = words.next().unwrap_or_default().split(',').filter(|rule| !rule.is_empty());
    let rules = rules.map(str::to_ascii_uppercase).collect();
    Some(Mute { rules, reason: words.collect::<Vec<_>>().join(" "), line })
}

/// More than there are rules for each file that is included.
const MUTES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<(Vec<String>, String)> {
        mutes(text.as_bytes()).pop().map(|mute| (mute.rules, mute.reason))
    }

    #[test]
    fn a_comment_names_rules_and_gives_a_reason() {
        let is =
            |rules: &[&str], reason: &str| Some((rules.iter().map(|&r| r.to_owned()).collect(), reason.to_owned()));
        assert_eq!(one("; lint: ignore L05 it is  for later\r"), is(&["L05"], "it is for later"));
        assert_eq!(one("  ## lint:ignore l05,L10 why"), is(&["L05", "L10"], "why"));
        assert_eq!(one("; lint: ignore L05"), is(&["L05"], ""));
        assert_eq!(one("; lint: ignore"), is(&[], ""));
        assert_eq!(one("a = 1 ; lint: ignore L05 x"), None);
        assert_eq!(one("; lint everything"), None);
        assert_eq!(mutes(b"a\n\n# lint: ignore L01 x\n").first().map(|mute| mute.line), Some(3));
    }
}
