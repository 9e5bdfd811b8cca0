//! An online restart that fails: whichever side ends it, and whenever, the old process has everything or neither process
//! has.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::operation::takeover::{DYING, await_full, state};

/// A process that has received everything; it reports success on request, and exits with 9 if the final message does not
/// arrive.
struct Heir(Child);

impl Heir {
    fn of(house: &House, pooler: &Pooler) -> Self {
        let mut python = house.place.command("/usr/bin/python3".as_ref(), "KILL");
        python.args(["-c", DYING, &pooler.socket().display().to_string(), "6"]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it tells");
        assert_eq!(line, "has everything\n");
        Self(child)
    }

    fn says_so(mut self) -> Option<i32> {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends").code()
    }
}

/// Previously only the end of the new process could abort a handover, and a shutdown did not keep the old process from
/// releasing its own resources.
pub(crate) fn until_the_last_word_it_can_be_called_off(house: &House) {
    let mut pooler = house.pooler("take_back", &[]);
    let mut client = pooler.client("u", "take_back");
    client.run("begin");
    let pid = client.server_pid();
    let mut console = pooler.client("admin", "pgbouncer");
    let heir = Heir::of(house, &pooler);
    assert_eq!(console.query("PAUSE").error().text, "an online restart is in progress");
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!(client.server_pid(), pid);
    assert_eq!(heir.says_so(), Some(9), "it is not given the last word");
    let heir = Heir::of(house, &pooler);
    pooler.signal(Signal::SIGUSR2);
    pooler.await_log("online restart called off by SIGUSR2, going on");
    assert_eq!(client.server_pid(), pid);
    assert_eq!(heir.says_so(), Some(9), "it is not given the last word");
    assert_eq!(state(&pooler), "active yes paused no suspended no");
    let heir = Heir::of(house, &pooler);
    pooler.signal(Signal::SIGTERM);
    pooler.await_log("takeover was in progress, going down immediately");
    assert_eq!(heir.says_so(), Some(9), "it is not given the last word");
    assert_eq!(pooler.await_end(LIMIT).code(), Some(1));
    assert!(!pooler.socket().exists(), "it was its own to the end");
}

/// Previously the old process waited for quiet without a limit and did not notice that the new process had died: it served
/// no client any more.
pub(crate) fn a_new_process_that_dies_before_everything_stands_still_changes_nothing(house: &House) {
    let mut pooler = house.pooler("take_restless", &["suspend_timeout = 0"]);
    let (mut slow, mut other) = (pooler.client("u", "take_restless"), pooler.client("u", "take_restless"));
    slow.ask("select repeat('x', 1000) from generate_series(1, 200000)");
    slow.peer.frame().expect("its answer has begun");
    let mut console = pooler.client("admin", "pgbouncer");
    // Until then the kernel accepts all data, and a client that is sent nothing more is at rest.
    await_full(&mut console);
    let suspended = |pooler: &Pooler| pooler.log().matches("the new process is ready, suspending").count();
    let mut new = pooler.beside(&["-R"], &[]);
    wait_until("it is suspended", LIMIT, || suspended(&pooler) == 1);
    new.signal(Signal::SIGKILL);
    new.await_end(LIMIT);
    pooler.await_log("online restart failed, going on: the new process was lost before everything stood still");
    assert_eq!(other.value("select 1"), "1");
    let mut new = pooler.beside(&["-R"], &[]);
    wait_until("it is suspended", LIMIT, || suspended(&pooler) == 2);
    assert_eq!(console.query("RESUME").tags, ["RESUME"]);
    assert_eq!(other.value("select 2"), "2");
    assert_eq!(new.await_end(LIMIT).code(), Some(1));
    slow.answer();
    pooler.restart_online();
    assert_eq!(other.value("select 3"), "3");
}
