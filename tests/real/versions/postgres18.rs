//! What is new in PostgreSQL 18: protocol 3.2, logins by OAuth.
//!
//! Always true: a test of a feature that the current PostgreSQL lacks prints that and does nothing; where an older
//! PostgreSQL answers a client in the same way, the answers are compared all the same.
//! Not here: which parameters are reported to clients (`sessions`, `state`).

use tests::client::{Client, send_cancel};
use tests::message;
use tests::peer::{Frame, Peer};
use tests::pooler::Ini;

use crate::house::House;

const VERSION: u32 = 18;

/// The answers to the newest protocol version, and to one that does not exist yet.
pub(crate) fn a_client_may_ask_for_any_protocol(house: &House) {
    let pooler = house.pooler("asked", &[]);
    let options = [("user", "u"), ("database", "asked"), ("_pq_.wish", "on"), ("_pq_.other", "")];
    let answers = |to, minor: u16, options: &[(&str, &str)]| {
        let mut peer = Peer::tcp(to).expect("the port answers");
        peer.send(&message::startup(minor, options));
        let frames: Vec<Frame> = std::iter::from_fn(|| {
            let frame = peer.frame().expect("an answer comes");
            (frame.tag != b'Z').then_some(frame)
        })
        .collect();
        let negotiated = frames.iter().find(|frame| frame.tag == b'v').map(|frame| frame.body.clone());
        let key = frames.iter().find(|frame| frame.tag == b'K').expect("a key").body.len();
        (negotiated, key)
    };
    for (minor, options) in
        [(0, &options[..2]), (0, &options), (2, &options[..2]), (2, &options), (99, &options[..2]), (9999, &options)]
    {
        let pooled = answers(pooler.address(), minor, options);
        assert_eq!(pooled.1, if minor < 2 { 8 } else { 36 }, "3.{minor}");
        // Before 18 PostgreSQL offers 3.0 only.
        if house.postgres.major() >= VERSION {
            let direct = answers(house.postgres.address(), minor, options);
            assert_eq!(pooled, direct, "3.{minor}");
        }
    }
}

/// Version 18 reports `search_path`, version 14 the defaults of transactions.
pub(crate) fn settings_of_a_startup_packet_are_in_the_greeting(house: &House) {
    let pooler = house.pooler("greeted", &["pool_mode = transaction"]);
    let greeting = |to, given: &[(&str, &str)]| {
        let all = [&[("user", "u"), ("database", "greeted")], given].concat();
        Client::try_login(to, &all).expect("let in").parameters
    };
    for given in [
        &[][..],
        &[("search_path", "tenant, public")],
        &[("options", "-c search_path=tenant -c default_transaction_read_only=true")],
    ] {
        let [pooled, direct] = [pooler.address(), house.postgres.address()].map(|to| greeting(to, given));
        for name in ["search_path", "default_transaction_read_only"] {
            assert_eq!(pooled.get(name), direct.get(name), "{name} with {given:?}");
        }
    }
}

/// Keys of protocol 3.2 may be as long as 256 bytes.
pub(crate) fn cancel_requests_of_any_length_hit_their_own_only(house: &House) {
    let pooler = house.pooler("keys", &["pool_mode = transaction"]);
    let peer = Peer::tcp(pooler.address()).expect("the port answers");
    let mut client = Client::login_by_3_2(peer, "u", "keys");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("keys", "pg_sleep");
    for length in [4, 8, 28, 31, 33, 36, 252, 256] {
        let mut other = client.key.1.clone();
        other.resize(length, 7);
        send_cancel(pooler.address(), client.key.0, &other);
    }
    let running = "select count(*) from pg_stat_activity where datname = 'keys' and state = 'active'";
    assert_eq!(house.postgres.value(running), "1", "a key that is not its own has hit it");
    send_cancel(pooler.address(), client.key.0, &client.key.1);
    assert_eq!(client.answer().error().code, "57014");
}

/// A server that asks for a token gets none; the client gets an error that says so, and so does the log.
pub(crate) fn a_server_that_asks_for_a_token_is_refused_by_name(house: &House) {
    if house.is_older_than(VERSION, "OAuth") {
        return;
    }
    let mut cluster = house.postgres.client("postgres");
    cluster.run("create role by_token login");
    cluster.run("alter system set oauth_validator_libraries = 'validator'");
    cluster.run("select pg_reload_conf()");
    house.postgres.rule(&house.place, "host all by_token all oauth issuer=https://example.org scope=openid\n");
    house.postgres.database("token");
    let pooler = house.start(&Ini::new(&house.line("token")).secret("by_token", "anything"));
    let all = [("user", "by_token"), ("database", "token")];
    let refused = Client::try_login(pooler.address(), &all).expect_err("it is refused");
    assert!(refused.text.contains("OAUTHBEARER"), "{refused:?}");
    pooler.await_log("OAUTHBEARER");
    assert_eq!(pooler.client("u", "token").value("select 1"), "1");
}
