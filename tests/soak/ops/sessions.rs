//! State of a whole session: in pool mode `session` it stays with the client, and none of it is left for the next client.

use base::Random;
use tests::message::{bind, execute, frame, parse, strings, sync};

use super::read;
use crate::soak::session::{End, Heard, Session};
use crate::soak::want::Want;

/// A new session finds no settings, tables or statements of another.
pub(super) fn expect_nothing(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let sql = format!(
        "select '{tag}' as a, coalesce(current_setting('soak.owner', true), '') as owner, \
         to_regclass('pg_temp.soak_session') is null as alone, (select count(*) from pg_prepared_statements) as statements, \
         (select count(*) from pg_listening_channels()) as channels"
    );
    let names = ["a", "owner", "alone", "statements", "channels"];
    session.query(&sql, &Want::one_row(&names, &[&tag, "", "t", "0", "0"]), 'I').map(drop)
}

/// A request that uses state of the session.
pub(super) fn perform(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    match random.below(4) {
        0 => setting(session),
        1 => temporary_table(session),
        2 => named_statement(session, random),
        _ => notification(session),
    }
}

fn setting(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let sql = format!("select set_config('soak.owner', '{tag}', false) as mine");
    if session.query(&sql, &Want::one_row(&["mine"], &[&tag]), 'I')? != Heard::All {
        return Ok(());
    }
    session
        .query("show soak.owner", &[Want::columns(&["soak.owner"]), Want::row(&[&tag]), Want::tag("SHOW")], 'I')
        .map(drop)
}

fn temporary_table(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    if session.query("discard temporary", &[Want::tag("DISCARD TEMP")], 'I')? != Heard::All {
        return Ok(());
    }
    let sql = format!("create temporary table soak_session as select '{tag}' as a");
    if session.query(&sql, &[Want::tag("SELECT 1")], 'I')? != Heard::All {
        return Ok(());
    }
    session.query("select a from soak_session", &Want::one_row(&["a"], &[&tag]), 'I').map(drop)
}

/// Prepares a statement under a name that all clients use.
fn named_statement(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    let tag = session.tag();
    let close = frame(b'C', &[b"S", &strings(&["mine"])[..]].concat());
    let bytes = [close, parse("mine", &format!("select '{tag}' || $1::text")), sync()].concat();
    session.send(&format!("prepare mine: {tag}"), &bytes)?;
    if session.hear(&Want::kinds(b"31"), 'I')? != Heard::All {
        return Ok(());
    }
    for _ in 0..random.below(4) {
        read(session, random)?;
        let other = session.tag();
        let bytes = [bind("", "mine", &[&other]), execute("", 0), sync()].concat();
        session.send(&format!("execute mine: {other}"), &bytes)?;
        let mut wants = Want::kinds(b"2");
        wants.extend([Want::row(&[&format!("{tag}{other}")]), Want::tag("SELECT 1")]);
        if session.hear(&wants, 'I')? != Heard::All {
            break;
        }
    }
    Ok(())
}

/// Receives its own notification, and none of other clients.
fn notification(session: &mut Session<'_>) -> Result<(), End> {
    let tag = session.tag();
    let channel = format!("soak_{}", session.who.id);
    if session.query(&format!("listen {channel}"), &[Want::tag("LISTEN")], 'I')? != Heard::All {
        return Ok(());
    }
    let wants = [Want::tag("NOTIFY"), Want::Notification(channel.clone(), tag.clone())];
    if session.query(&format!("notify {channel}, '{tag}'"), &wants, 'I')? != Heard::All {
        return Ok(());
    }
    session.query(&format!("unlisten {channel}"), &[Want::tag("UNLISTEN")], 'I').map(drop)
}
