//! The requests of the clients, in all styles of the protocol.
//!
//! Always true: every request carries a tag that was never sent before, and states exactly which answer it expects.
//! Not here: which other messages may arrive instead (`session`).

mod mixed;
mod reading;
mod sessions;
mod writing;

use base::Random;
use tests::message;

use super::cast::{self, Mode};
use super::ledger::Ledger;
use super::session::{End, Heard, Session};
use super::want::Want;
use super::world::Phase;

/// One request, or a transaction of several.
pub(crate) fn perform(session: &mut Session<'_>, random: &mut Random, ledger: &mut Ledger) -> Result<(), End> {
    match (cast::mode(session.who.database), random.below(100)) {
        (Mode::Statement, 0..=3) if session.world.phase() < Phase::Proof => mixed::forbidden_transaction(session),
        (Mode::Statement, 0..=39) => writing::in_one_request(session, random, ledger),
        (Mode::Statement, _) => read(session, random),
        (Mode::Session, 0..=39) => sessions::perform(session, random),
        (_, 0..=29) => writing::perform(session, random, ledger),
        (_, 30..=37) => mixed::in_transaction(session, random),
        (_, 38) if session.world.phase() < Phase::Proof => mixed::abandoned_transaction(session, random),
        _ => read(session, random),
    }
}

/// The first check of a new connection: nothing may be left of the clients that used this server before.
pub(crate) fn begin_life(session: &mut Session<'_>) -> Result<(), End> {
    match cast::mode(session.who.database) {
        Mode::Session => sessions::expect_nothing(session),
        _ => Ok(()),
    }
}

/// A time zone for a new connection.
pub(crate) fn draw_zone(random: &mut Random) -> &'static str {
    ZONES[random.below(ZONES.len() as u64) as usize]
}

fn read(session: &mut Session<'_>, random: &mut Random) -> Result<(), End> {
    match random.below(100) {
        0..=17 => reading::own_settings(session),
        18..=25 => reading::several_statements(session, random),
        26..=38 => reading::extended(session, random),
        39..=52 => reading::pipeline(session, random),
        53..=57 => reading::extended_in_two_steps(session),
        58..=62 => reading::portal_in_steps(session, random),
        63..=68 => reading::copy_out(session, random),
        69..=74 => reading::function_call(session),
        75..=79 => reading::big_row(session, random),
        80..=82 => reading::big_parameter(session, random),
        83..=86 => mixed::notice(session),
        87..=90 => mixed::exception(session),
        91..=93 => mixed::set_zone(session, random),
        94 => mixed::empty(session),
        _ => mixed::sleep(session, random),
    }
}

/// Runs a command without rows, such as BEGIN, in either protocol; `ready` and `failed` are the transaction statuses after
/// success and after an error.
fn command(
    session: &mut Session<'_>,
    random: &mut Random,
    sql: &str,
    tag: &str,
    (ready, failed): (char, &str),
) -> Result<Heard, End> {
    if random.below(2) == 0 {
        session.send(sql, &message::query(sql))?;
        return session.hear_or(&[Want::tag(tag)], ready, failed);
    }
    let bytes =
        [message::parse("", sql), message::bind("", "", &[]), message::execute("", 0), message::sync()].concat();
    session.send(&format!("extended {sql}"), &bytes)?;
    let wants: Vec<_> = Want::kinds(b"12").into_iter().chain([Want::tag(tag)]).collect();
    session.hear_or(&wants, ready, failed)
}

/// Begins a transaction. Returns whether it is open.
fn begin(session: &mut Session<'_>, random: &mut Random) -> Result<bool, End> {
    let heard = command(session, random, "begin", "BEGIN", ('T', "IE"))?;
    went_well(session, heard)
}

/// Ends a transaction that has failed.
fn settle(session: &mut Session<'_>) -> Result<(), End> {
    while session.status != 'I' {
        session.send("rollback", &message::query("rollback"))?;
        session.hear_or(&[Want::tag("ROLLBACK")], 'I', "IE")?;
    }
    Ok(())
}

/// Returns whether a step of a transaction succeeded; if not, ends the transaction.
fn went_well(session: &mut Session<'_>, heard: Heard) -> Result<bool, End> {
    match heard {
        Heard::All => Ok(true),
        Heard::Failed(_) => settle(session).map(|()| false),
    }
}

const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "Asia/Tokyo", "America/New_York", "Australia/Adelaide", "Asia/Kolkata"];
