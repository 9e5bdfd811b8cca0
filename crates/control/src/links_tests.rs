//! Tests of the control thread's connections to its own workers, without sockets.

use super::*;

use base::{Key, WorkerId};
use wire::backend::{self, TxStatus};
use wire::write;
use worker::letters::{AuthQueryAnswer, Inquirer, SecretQuestion, ToControl, ToWorker};

use crate::Event;
use crate::control::tests::Desk;

/// Returns all orders for connections, one line for each; of bytes sent only the texts of simple queries are shown.
fn orders(desk: &mut Desk) -> Vec<String> {
    let line = |order| match order {
        LinkOrder::Open { link, database, is_listener } => {
            format!("open {link} to {database}{}", if is_listener { " for all" } else { "" })
        }
        LinkOrder::Say { link, bytes } => match bytes.as_slice() {
            [b'Q', _, _, _, _, text @ .., 0] => format!("{link}: {}", String::from_utf8_lossy(text)),
            [b'P', ..] => format!("{link}: asks"),
            _ => format!("{link}: logs in"),
        },
        LinkOrder::Close { link } => format!("close {link}"),
    };
    std::iter::from_fn(|| desk.control.next_link_order()).map(line).collect()
}

fn hears(desk: &mut Desk, link: u64, bytes: Vec<u8>) {
    desk.happens(Event::Link { link, news: LinkNews::Heard(bytes) });
}

fn ends(desk: &mut Desk, link: u64) {
    desk.happens(Event::Link { link, news: LinkNews::Ended("the connection has ended".to_owned()) });
}

fn ready() -> Vec<u8> {
    let mut out = Vec::new();
    write::ready_for_query(&mut out, TxStatus::Idle);
    out
}

fn row(values: [Option<&str>; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    write::data_row(&mut out, values.into_iter());
    out
}

fn error(severity: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::error(&mut out, write::Says { severity, sqlstate: "57P01", message: "gone", detail: None, hint: None });
    assert_eq!(out[0], backend::ERROR_RESPONSE);
    out
}

fn ask(desk: &mut Desk, number: u32) {
    desk.happens(Event::Letter(ToControl::AskSecret(SecretQuestion {
        from: WorkerId(0),
        inquirer: Inquirer::Client(Key { index: number, generation: 1 }),
        database: "d".into(),
        asker: "asker".into(),
        sql: "select".into(),
        user: "u".into(),
    })));
}

/// Returns the answer that the worker was sent, which must be its only letter.
fn told(desk: &Desk) -> AuthQueryAnswer {
    match &desk.letters(0)[..] {
        [ToWorker::AuthQueryAnswer { answer, .. }] => answer.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns why there is no answer.
fn unanswered(desk: &Desk) -> String {
    match told(desk) {
        AuthQueryAnswer::Unanswered(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_about_a_user_is_put_on_a_connection_of_its_own() {
    let mut desk = Desk::new("asks", 1, "");
    ask(&mut desk, 1);
    assert_eq!(orders(&mut desk), ["open 1 to d", "1: logs in"]);
    hears(&mut desk, 1, ready());
    assert_eq!(orders(&mut desk), ["1: asks"]);
    let answer = [row([Some("u"), Some("secret")]), row([Some("u"), Some("secret")]), ready()].concat();
    let (begin, rest) = answer.split_at(9);
    hears(&mut desk, 1, begin.to_vec());
    assert!(orders(&mut desk).is_empty() && desk.letters(0).is_empty());
    hears(&mut desk, 1, rest.to_vec());
    assert_eq!(orders(&mut desk), ["close 1"]);
    assert!(matches!(told(&desk), AuthQueryAnswer::User { name, .. } if *name == *"u"));
    // Later news of the connection is ignored.
    ends(&mut desk, 1);
    assert!(desk.letters(0).is_empty());
}

#[test]
fn a_question_without_an_answer_is_answered_all_the_same() {
    let mut desk = Desk::new("unanswered", 1, "client_login_timeout=3");
    ask(&mut desk, 1);
    ends(&mut desk, 1);
    assert_eq!(unanswered(&desk), "error in auth_query: the connection has ended");
    // The first row that differs ends the answer.
    ask(&mut desk, 2);
    hears(&mut desk, 2, ready());
    hears(&mut desk, 2, [row([Some("u"), Some("a")]), row([Some("u"), None])].concat());
    assert_eq!(unanswered(&desk), "expected 1 row from auth_query, not several that differ");
    ask(&mut desk, 3);
    hears(&mut desk, 3, error("FATAL"));
    ends(&mut desk, 3);
    assert!(matches!(told(&desk), AuthQueryAnswer::Refused { text, .. } if *text == *"gone"));
    ask(&mut desk, 4);
    desk.after(3, Event::Tick);
    assert!(desk.letters(0).is_empty());
    desk.after(1, Event::Tick);
    assert_eq!(unanswered(&desk), "no answer to auth_query in time");
    assert_eq!(orders(&mut desk).last().map(String::as_str), Some("close 4"));
}

fn listen(desk: &mut Desk, channel: &str, number: u64) {
    let (database, user, channel) = ("d".into(), "u".into(), channel.into());
    desk.happens(Event::Letter(ToControl::Listen { database, user, channel, number, is_relied_on: false }));
}

/// Returns the letters to the worker about channels.
fn news(desk: &Desk) -> Vec<String> {
    let line = |letter| match letter {
        ToWorker::Heard { channel, number, .. } => format!("{channel} {number}"),
        ToWorker::Unheard { channels, error, .. } => format!("{channels:?}: {error}"),
        ToWorker::ListenerLost { .. } => "lost".to_owned(),
        other => panic!("{other:?}"),
    };
    desk.letters(0).into_iter().map(line).collect()
}

#[test]
fn who_listens_for_all_says_one_thing_after_the_other_and_leaves_when_nobody_needs_it() {
    let mut desk = Desk::new("listens", 1, "");
    listen(&mut desk, "a", 1);
    assert_eq!(orders(&mut desk), ["open 1 to d for all", "1: logs in"]);
    listen(&mut desk, "b", 2);
    assert!(orders(&mut desk).is_empty());
    hears(&mut desk, 1, ready());
    let marks = format!("1: LISTEN \"{}\"", protocol::state::MARKS);
    assert_eq!(orders(&mut desk), [marks]);
    hears(&mut desk, 1, ready());
    assert_eq!(orders(&mut desk), ["1: LISTEN \"a\""]);
    hears(&mut desk, 1, ready());
    assert_eq!((orders(&mut desk), news(&desk)), (vec!["1: LISTEN \"b\"".to_owned()], vec!["a 1".to_owned()]));
    hears(&mut desk, 1, ready());
    assert_eq!(news(&desk), ["b 2"]);
    for (channel, said) in [("a", vec!["1: UNLISTEN \"a\""]), ("b", vec![])] {
        desk.happens(Event::Letter(ToControl::Unlisten { database: "d".into(), channel: channel.into() }));
        assert_eq!(orders(&mut desk), said);
    }
    hears(&mut desk, 1, ready());
    assert_eq!(orders(&mut desk), ["1: UNLISTEN \"b\""]);
    hears(&mut desk, 1, ready());
    desk.after(4, Event::Tick);
    assert!(orders(&mut desk).is_empty());
    desk.after(1, Event::Tick);
    assert_eq!(orders(&mut desk), ["close 1"]);
    assert!(news(&desk).is_empty(), "nobody misses it");
    listen(&mut desk, "a", 3);
    assert_eq!(orders(&mut desk), ["open 2 to d for all", "2: logs in"]);
}

#[test]
fn a_session_that_has_ended_is_told_of_and_comes_again_for_what_it_listened_to() {
    let mut desk = Desk::new("lost", 1, "");
    listen(&mut desk, "a", 1);
    (0..3).for_each(|_| hears(&mut desk, 1, ready()));
    assert_eq!(news(&desk), ["a 1"]);
    listen(&mut desk, "b", 2);
    orders(&mut desk);
    ends(&mut desk, 1);
    assert_eq!(news(&desk), ["[(\"b\", 2)]: the connection has ended", "lost"]);
    assert_eq!(orders(&mut desk), ["close 1"]);
    desk.after(1, Event::Tick);
    assert_eq!(orders(&mut desk), ["open 2 to d for all", "2: logs in"]);
    // A session that has not been established is not reported as lost.
    hears(&mut desk, 2, error("FATAL"));
    ends(&mut desk, 2);
    assert!(news(&desk).is_empty());
    desk.happens(Event::Letter(ToControl::UnlistenAll { database: "d".into() }));
    desk.after(1, Event::Tick);
    assert_eq!(orders(&mut desk), ["close 2"]);
}

#[test]
fn a_session_that_is_not_answered_is_given_up() {
    let mut desk = Desk::new("silent", 1, "client_login_timeout=3");
    listen(&mut desk, "a", 1);
    desk.after(4, Event::Tick);
    assert_eq!(news(&desk), ["[(\"a\", 1)]: no answer in time"]);
    assert_eq!(orders(&mut desk).last().map(String::as_str), Some("close 1"));
    listen(&mut desk, "a", 2);
    assert!(orders(&mut desk).is_empty(), "each attempt may be a line in the log");
    desk.after(1, Event::Tick);
    hears(&mut desk, 2, ready());
    desk.after(4, Event::Tick);
    let refusal = "[(\"a\", 2)]: it cannot listen to the marks at which it takes over";
    assert_eq!(news(&desk), [refusal, "lost"]);
}
