//! The table that is printed.
//!
//! Always true: a row is one line, with what is wrong at its end.
//! Not here: what counts as wrong (`trial`).

use super::trial::Result;

/// One attack, on both poolers if both were attacked.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: Result,
    pub(crate) theirs: Option<Result>,
}

/// The two lines above the rows.
pub(crate) fn head(is_compared: bool) -> String {
    let theirs = if is_compared { " | PgBouncer: alive, peak MiB, wait ms, median ms, told" } else { "" };
    format!(
        "{:<44} {:<5} {:>9} {:>9} {:>8} {:>9} {:>8} {:>6}  told{theirs}",
        "attack", "alive", "peak MiB", "after", "wait ms", "median ms", "direct", "s"
    )
}

/// A row.
pub(crate) fn line(row: &Row) -> String {
    let Result { peak_mib, after_mib, wait, median, witness, took, told, .. } = &row.ours;
    let alive = alive(&row.ours);
    let median = millis(*median);
    let (wait, witness, took) = (wait.as_millis(), witness.as_millis(), took.as_secs_f32());
    let theirs = row.theirs.as_ref().map_or(String::new(), |theirs| {
        let (wait, median) = (theirs.wait.as_millis(), millis(theirs.median));
        format!(" | {}, {}, {wait}, {median:.1}, {}", self::alive(theirs), theirs.peak_mib, theirs.told)
    });
    let verdict = row.ours.complaint().map_or(String::new(), |what| format!("  FAILED: {what}"));
    format!(
        "{:<44} {alive:<5} {peak_mib:>9} {after_mib:>9} {wait:>8} {median:>9.1} {witness:>8} {took:>6.1}  {told}{theirs}{verdict}",
        row.name
    )
}

fn millis(wait: std::time::Duration) -> f64 {
    wait.as_secs_f64() * 1000.0
}

fn alive(result: &Result) -> &'static str {
    if result.is_alive { "yes" } else { "DEAD" }
}
