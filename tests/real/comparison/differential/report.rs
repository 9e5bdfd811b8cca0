//! Reports a difference: the seed, the program, both transcripts around the difference, and how to reproduce it.
//!
//! Always true: the program is in the notation of `tests/talk`, with PostgreSQL's own answers.
//! Not here: finding a difference (`hunt`), making the program small (`shrink`).

use std::fmt::Write as _;

use tests::peer::Frame;

use super::hunt::Difference;
use super::normal::Parting;
use super::play::list;

/// The whole report.
pub(super) fn report(found: &Difference) -> String {
    let seed = found.round.seed;
    let mut text = format!("seed {seed:#x}: answered differently by the pooler (pool {})\n", found.way.name());
    let _ = writeln!(text, "\nthe program, with PostgreSQL's answers:\n");
    text.push_str(&found.round.programs[found.seat].script(&found.direct.answers()));
    for (seat, program) in found.round.programs.iter().enumerate() {
        if seat != found.seat && program.size() > 0 {
            let _ = writeln!(text, "\nbeside it, on other tables:\n\n{}", program.script(&[]));
        }
    }
    if let Some(rude) = found.round.rude {
        let _ = writeln!(text, "\nbeside it, clients without manners (seed {rude:#x})");
    }
    text.push_str(&parted(found));
    let _ = writeln!(text, "\nplay it again:  cargo xtask differential --replay {seed:#x}");
    text
}

/// Where and how the transcripts part.
pub(super) fn parted(found: &Difference) -> String {
    let (direct, pooled) = (&found.direct, &found.pooled);
    match found.parting {
        Parting::Welcome => format!(
            "\nthe parameters of the login differ:\n  PostgreSQL  {:?}\n  Trunkline   {:?}\n  ended by    {:?}\n",
            direct.welcome, pooled.welcome, pooled.end
        ),
        Parting::End => {
            format!("\nthe end differs:\n  PostgreSQL  {:?}\n  Trunkline   {:?}\n", direct.end, pooled.end)
        }
        Parting::Left => {
            let rows = |rows: &[Vec<Option<String>>], others: &[Vec<Option<String>>]| {
                rows.iter().filter(|row| !others.contains(row)).map(|row| format!("    {row:?}\n")).collect::<String>()
            };
            let (mine, theirs) = (rows(&direct.left, &pooled.left), rows(&pooled.left, &direct.left));
            format!("\nwhat they left in the tables differs:\n  PostgreSQL\n{mine}  Trunkline\n{theirs}")
        }
        Parting::At(at) => {
            let mut text = format!("\nthey part at message {at}:\n  {:<60}  Trunkline\n", "PostgreSQL");
            for row in at.saturating_sub(BEFORE)..(at + AFTER).min(direct.frames.len().max(pooled.frames.len())) {
                let mark = if row == at { '>' } else { ' ' };
                let _ =
                    writeln!(text, "{mark} {:<60}  {}", shown(direct.frames.get(row)), shown(pooled.frames.get(row)));
            }
            if let (Some(one), Some(two)) = (direct.frames.get(at), pooled.frames.get(at))
                && shown(Some(one)) == shown(Some(two))
            {
                let _ = writeln!(text, "in bytes:\n  {}\n  {}", one.body.escape_ascii(), two.body.escape_ascii());
            }
            let _ = writeln!(text, "ends: {:?}, {:?}", direct.end, pooled.end);
            text
        }
    }
}

fn shown(frame: Option<&Frame>) -> String {
    let Some(frame) = frame else { return "(nothing)".to_string() };
    let text = list(std::slice::from_ref(frame));
    match text.char_indices().nth(WIDTH) {
        Some((cut, _)) => format!("{}..", &text[..cut]),
        None => text,
    }
}

/// Messages that are shown before and after the first difference.
const BEFORE: usize = 5;
const AFTER: usize = 6;
/// Characters of a message that are shown.
const WIDTH: usize = 58;
