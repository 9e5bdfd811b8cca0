//! `PAUSE` and `HOLD`: the database, and for how long.
//!
//! Always true: a pause with a time ends, and so does each hold.
//! Not here: carrying it out (`crate::orders`), its end (`crate::timed_pauses`).

use std::fmt;
use std::sync::Arc;

use worker::letters::Whose;

use super::Refusal;

/// A pause that is to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// The database, or all.
    pub(crate) whose: Whose,
    /// After how many seconds it ends by itself; `None` if only RESUME ends it.
    pub(crate) seconds: Option<u64>,
}

impl Pause {
    /// A pause that lasts until RESUME.
    pub(crate) fn until_resume(whose: Whose) -> Self {
        Self { whose, seconds: None }
    }

    /// Parses what follows `FOR`.
    pub(super) fn timed(whose: Whose, lasts: &str) -> Result<Self, Refusal> {
        let seconds =
            seconds_of("PAUSE", lasts, SECONDS_MAX).map_err(|refusal| refusal.hinted(hint(USAGE, SECONDS_MAX)))?;
        Ok(Self { whose, seconds: Some(seconds) })
    }
}

/// A hold that is to begin: a pause for a switchover or a restart of the primary, which always ends by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    /// The database.
    pub(crate) name: Arc<str>,
    /// After how many seconds it ends by itself; `None`: after the `hold_timeout` of its cluster, or 30 seconds.
    pub(crate) seconds: Option<u64>,
}

impl Hold {
    /// Parses what follows `FOR`.
    pub(super) fn timed(whose: Whose, lasts: &str) -> Result<Self, Refusal> {
        let name = whose.ok_or_else(|| Refusal::new("a database is required").hinted(HOLD_USAGE))?;
        let seconds =
            seconds_of("HOLD", lasts, HOLD_MAX).map_err(|refusal| refusal.hinted(hint(HOLD_USAGE, HOLD_MAX)))?;
        Ok(Self { name, seconds: Some(seconds) })
    }
}

/// Formats the command as it is logged.
impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HOLD '{}'", self.name.escape_debug())?;
        self.seconds.map_or(Ok(()), |seconds| write!(f, " FOR {seconds} SECONDS"))
    }
}

fn hint(usage: &str, most: u64) -> String {
    format!("{usage}, with n from 1 to {most}")
}

/// Parses what follows `FOR`.
fn seconds_of(verb: &str, lasts: &str, most: u64) -> Result<u64, Refusal> {
    let (count, unit) = lasts.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((lasts, UNITS[0]));
    let is_unit = UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit.trim_ascii()));
    let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
    match count.parse() {
        Ok(seconds) if is_number && is_unit && (1..=most).contains(&seconds) => Ok(seconds),
        _ => Err(Refusal::coded("22023", format!("{verb} cannot last \"{}\"", lasts.escape_debug()))),
    }
}

/// Formats the command as it is logged.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PAUSE")?;
        if let Some(name) = &self.whose {
            write!(f, " '{}'", name.escape_debug())?;
        }
        self.seconds.map_or(Ok(()), |seconds| write!(f, " FOR {seconds} SECONDS"))
    }
}

const UNITS: [&str; 3] = ["SECONDS", "SECOND", "S"];
/// The syntax.
pub(super) const USAGE: &str = "PAUSE [<db>] [FOR <n> [SECONDS]]";
/// A day: who pauses for longer does not want the pause to end by itself.
const SECONDS_MAX: u64 = 86_400;
/// The syntax.
pub(super) const HOLD_USAGE: &str = "HOLD <db> [FOR <n> [SECONDS]]";
/// Nobody wants clients to wait for longer.
const HOLD_MAX: u64 = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_for_some_seconds_or_until_resume() {
        for lasts in ["30", "30 seconds", "30\tS", "30  second"] {
            let pause = Pause::timed(Some("shop".into()), lasts).expect(lasts);
            assert_eq!((pause.seconds, &*pause.to_string()), (Some(30), "PAUSE 'shop' FOR 30 SECONDS"));
        }
        assert_eq!(
            Pause::timed(None, "86400").map(|pause| pause.to_string()),
            Ok("PAUSE FOR 86400 SECONDS".to_owned())
        );
        assert_eq!(Pause::until_resume(Some("a\nb".into())).to_string(), "PAUSE 'a\\nb'");
    }

    #[test]
    fn a_bad_duration_is_named() {
        for lasts in
            ["0", "86401", "99999999999999999999", "-5", "+5", "1.5", "soon", "5 minutes", "5s", "5 s s", "5; KILL"]
        {
            let refusal = Pause::timed(None, lasts).expect_err(lasts);
            let hint = "PAUSE [<db>] [FOR <n> [SECONDS]], with n from 1 to 86400";
            let told = (refusal.sqlstate, &*refusal.text, refusal.hint.as_deref());
            assert_eq!(told, ("22023", &*format!("PAUSE cannot last \"{lasts}\""), Some(hint)));
        }
    }
}
