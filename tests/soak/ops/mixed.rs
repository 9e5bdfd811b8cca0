//! Requests around the edges: notices, errors, waiting, parameters, transactions that leave no rows.

use base::Random;
use tests::message::query;

use super::{begin, command, draw_zone, settle, went_well};
use crate::soak::session::{End, Heard, Session};
use crate::soak::skewed;
use crate::soak::want::Want;

/// Makes the server send a notice with the tag.
pub(super) fn notice(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let sql = format!("do $$ begin raise notice '{tag}'; end $$");
    session.query(&sql, &[Want::Notice(tag), Want::tag("DO")], 'I').map(drop)
}

/// Makes the server send an error with the tag.
pub(super) fn exception(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let sql = format!("do $$ begin raise exception '{tag}'; end $$");
    session.query(&sql, &[Want::Error("P0001", tag)], 'I').map(drop)
}

/// Changes a parameter that the pooler tracks for the client.
pub(super) fn set_zone(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let zone = draw_zone(random);
    session.next_zone = Some(zone);
    let heard = session.query(&format!("set timezone to '{zone}'"), &[Want::tag("SET")], 'I')?;
    if heard == Heard::All {
        session.zone = zone;
    }
    session.next_zone = None;
    super::reading::own_settings(session)
}

/// A Query with an empty string.
pub(super) fn empty(session: &mut Session<'_>) -> Result<(), End> {
    session.query("", &[Want::Any(b'I')], 'I').map(drop)
}

/// A query that runs long enough to be cancelled, to have its server terminated, or to be abandoned by its client.
pub(super) fn sleep(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let millis = skewed(random, 3, 9);
    session.world.board.is_long(session.who.id, true);
    let sql = format!("select '{tag}' as a from pg_sleep({millis} / 1000.0)");
    let heard = session.query(&sql, &Want::one_row(&["a"], &[&tag]), 'I');
    session.world.board.is_long(session.who.id, false);
    heard.map(drop)
}

/// A transaction in statement mode is refused as soon as the server reports that it is in one.
pub(super) fn forbidden_transaction(session: &mut Session<'_>) -> Result<(), End> {
    session.send("begin", &query("begin"))?;
    if let Heard::Failed(_) = session.hear_part(&[Want::tag("BEGIN")])? {
        return session.hear_ready("I");
    }
    session.hear_end("transaction blocks not allowed in statement pooling mode")
}

/// A transaction with state that must end with it: a temporary table, local settings, a cursor, a pause.
pub(super) fn in_transaction(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    if !begin(session, random)? {
        return Ok(());
    }
    for _ in 0..1 + random.below(4) {
        let heard = match random.below(5) {
            0 => owner(session)?,
            1 => temporary_table(session)?,
            2 => cursor(session, random)?,
            3 => sleep_inside(session, random)?,
            _ => {
                session.world.pause(session.world.phase(), std::time::Duration::from_millis(random.below(10)));
                Heard::All
            }
        };
        if !went_well(session, heard)? {
            return Ok(());
        }
    }
    let (sql, tag) = if random.below(2) == 0 { ("commit", "COMMIT") } else { ("rollback", "ROLLBACK") };
    command(session, random, sql, tag, ('I', "IE"))?;
    settle(session)
}

/// A transaction whose client leaves while no query runs.
pub(super) fn abandoned_transaction(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    if begin(session, random)? && owner(session)? == Heard::All {
        session.diary.note("leaves in a transaction".to_string());
        return Err(End::Left);
    }
    settle(session)
}

/// Makes a setting local to this transaction; no other client may have left a value in it.
fn owner(session: &mut Session<'_>) -> Result<Heard, End> {
    let tag = session.tag();
    let sql = format!(
        "select coalesce(nullif(current_setting('soak.owner', true), ''), 'k{0}.') ~ '^k{0}[.]' as before, \
         set_config('soak.owner', '{tag}', true) as mine",
        session.who.id
    );
    session.query(&sql, &Want::one_row(&["before", "mine"], &["t", &tag]), 'T')
}

/// A temporary table that is dropped at the end of the transaction; a second one in the same transaction replaces the first.
fn temporary_table(session: &mut Session<'_>) -> Result<Heard, End> {
    let tag = session.tag();
    let name = format!("soak_temporary_{}", session.diary.serial());
    let sql = format!("create temporary table {name} on commit drop as select '{tag}' as a");
    let heard = session.query(&sql, &[Want::tag("SELECT 1")], 'T')?;
    if heard != Heard::All {
        return Ok(heard);
    }
    let sql = format!("select count(*) as tables, (select a from {name}) as a from pg_class where relname = '{name}'");
    session.query(&sql, &Want::one_row(&["tables", "a"], &["1", &tag]), 'T')
}

fn cursor(session: &mut Session<'_>, random: &mut Random) -> Result<Heard, End> {
    let tag = session.tag();
    let name = format!("c{}", session.diary.serial());
    let sql = format!("declare {name} cursor for select '{tag}.' || i as a from generate_series(1, 1000) i");
    let mut heard = session.query(&sql, &[Want::tag("DECLARE CURSOR")], 'T')?;
    let (mut read, steps) = (0, 1 + random.below(4));
    for _ in 0..steps {
        if heard != Heard::All {
            return Ok(heard);
        }
        let count = 1 + random.below(50);
        let mut wants = vec![Want::columns(&["a"])];
        wants.extend((read + 1..=read + count).map(|row| Want::row(&[&format!("{tag}.{row}")])));
        wants.push(Want::Tag(format!("FETCH {count}")));
        read += count;
        heard = session.query(&format!("fetch {count} from {name}"), &wants, 'T')?;
    }
    Ok(heard)
}

fn sleep_inside(session: &mut Session<'_>, random: &mut Random) -> Result<Heard, End> {
    let tag = session.tag();
    session.world.board.is_long(session.who.id, true);
    let sql = format!("select '{tag}' as a from pg_sleep({} / 1000.0)", random.below(80));
    let heard = session.query(&sql, &Want::one_row(&["a"], &[&tag]), 'T');
    session.world.board.is_long(session.who.id, false);
    heard
}
