//! Clients that ask for hosts of a kind themselves: `trunkline.target_session_attrs` and `listen_port_replica`.

use std::net::SocketAddr;

use tests::client::Client;
use tests::place::free_port;
use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::pooling::clusters::{await_primary, start};
use crate::pooling::hosts::{pair, port};

const ATTRS: &str = "trunkline.target_session_attrs";

pub(crate) fn a_client_says_what_its_host_has_to_be(house: &House) {
    let (one, two) = pair(house);
    let list = format!("list = host=127.0.0.1,127.0.0.1 port={},{} dbname=postgres", one.port(), two.port());
    let mut pooler = start(house, &[&one, &two], "check_interval=0.1", |ini| {
        let ini = ini.database("ro = cluster=main role=replica dbname=postgres").database(&list);
        let one_host = format!("one = host=127.0.0.1 port={} dbname=postgres", one.port());
        ini.database("\"rw:any\" = cluster=main dbname=postgres").database(&one_host)
    });
    await_primary(&pooler, &one);
    let (primary, standby) = (one.port(), two.port());
    for (database, word, expected) in [
        ("rw", "standby", standby),
        ("rw", "read-only", standby),
        ("rw", "prefer-standby", standby),
        ("rw", "primary", primary),
        ("ro", "read-write", primary),
        ("ro", "standby", standby),
        ("list", "standby", standby),
        ("list", "primary", primary),
        ("one", "prefer-standby", primary),
    ] {
        assert_eq!(port(&mut asking(&pooler, database, (ATTRS, word))), expected, "{database} {word}");
    }
    let options = ("options", "-c trunkline.target_session_attrs=standby -c work_mem=7MB");
    let mut client = asking(&pooler, "rw", options);
    assert_eq!((port(&mut client), &*client.value("show work_mem")), (standby, "7MB"));
    // No server is told of it.
    assert_eq!(client.query("show trunkline.target_session_attrs").error().code, "42704");
    assert_eq!(port(&mut asking(&pooler, "rw", ("options", "--odyssey.target-session-attrs=standby"))), standby);
    for (database, word, code, text) in [
        ("rw", "slave", "22023", "invalid value for parameter \"trunkline.target_session_attrs\": \"slave\""),
        (
            "rw",
            "any",
            "22023",
            "database \"rw:any\" is configured: connect to it, without trunkline.target_session_attrs",
        ),
        ("rw:standby", "any", "08P01", "no such database: rw:standby"),
        (
            "one",
            "standby",
            "22023",
            "database \"one\" has one host: trunkline.target_session_attrs has nothing to choose from",
        ),
    ] {
        let parameters = [("user", "u"), ("database", database), (ATTRS, word)];
        let refused = Client::try_login(pooler.address(), &parameters).expect_err("a refusal");
        assert_eq!((&*refused.code, &*refused.text), (code, text), "{database} {word}");
    }
    // What an operator orders for the database concerns them, too.
    pooler.console("PAUSE rw");
    client.ask("select 1");
    pooler.await_pool("rw:standby", "cl_waiting", "1");
    pooler.console("RESUME rw");
    assert_eq!(client.answer_within(LIMIT).value(), "1");
    // They stay where they are by an online restart.
    pooler.restart_online();
    assert_eq!((port(&mut client), port(&mut client)), (standby, standby));
    // A line that takes the name of their pool ends it.
    let line = "[databases]\n\"rw:standby\" = cluster=main role=replica dbname=postgres";
    pooler.rewrite_raw(&pooler.ini_text().replacen("[databases]", line, 1));
    pooler.console("RELOAD");
    let by_name = || Client::try_login(pooler.address(), &[("user", "u"), ("database", "rw:standby")]).is_ok();
    wait_until("the line has the name", LIMIT, by_name);
}

pub(crate) fn clients_of_the_port_for_replicas_get_replicas(house: &House) {
    let (one, two) = pair(house);
    let other = free_port();
    let ini = |ini: Ini| ini.set(&format!("listen_port_replica = {other}"));
    let pooler = start(house, &[&one, &two], "check_interval=0.1", ini);
    await_primary(&pooler, &one);
    let address = SocketAddr::new(pooler.address().ip(), other);
    let login = |more: &[(&str, &str)]| {
        let parameters = [&[("user", "u"), ("database", "rw")], more].concat();
        Client::try_login(address, &parameters).expect("a login")
    };
    assert_eq!(port(&mut login(&[])), two.port());
    assert_eq!(port(&mut login(&[(ATTRS, "primary")])), one.port());
    assert_eq!(port(&mut pooler.client("u", "rw")), one.port());
    assert_eq!(
        pooler.console("SHOW POOLS").rows.iter().filter(|row| row[0].as_deref() == Some("rw:standby")).count(),
        1
    );
    let same = Ini::new("a = host=x").set("listen_port = 6599").set("listen_port_replica = 6599");
    let (code, said) = Pooler::start_in_vain(&house.place, &same);
    assert!(code != 0 && said.contains("listen_port_replica is also listen_port: 6599"), "{said}");
}

pub(crate) fn roles_of_one_line_share_its_connections(house: &House) {
    let (one, two) = pair(house);
    let pooler = start(house, &[&one, &two], "check_interval=0.1", |ini: Ini| {
        ini.database("few = cluster=main dbname=postgres max_db_connections=1 pool_size=5")
    });
    await_primary(&pooler, &one);
    let mut writer = pooler.client("u", "few");
    writer.run("begin");
    assert_eq!(port(&mut writer), one.port());
    // Its login needs the parameters of a server, for which there is no room yet.
    let mut reader = asking(&pooler, "rw", (ATTRS, "standby"));
    assert_eq!(port(&mut reader), two.port());
    let address = pooler.address();
    let login = std::thread::spawn(move || {
        let mut client =
            Client::try_login(address, &[("user", "u"), ("database", "few"), (ATTRS, "standby")]).expect("a login");
        port(&mut client)
    });
    pooler.await_pool("few:standby", "cl_waiting", "1");
    assert_eq!(pooler.pool("few:standby", "u")["sv_login"], "0");
    writer.run("commit");
    assert_eq!(login.join().expect("the client ends"), two.port());
    assert_eq!(port(&mut writer), one.port());
}

fn asking(pooler: &Pooler, database: &str, parameter: (&str, &str)) -> Client {
    let parameters = [("user", "u"), ("database", database), parameter];
    Client::try_login(pooler.address(), &parameters).expect("a login")
}
