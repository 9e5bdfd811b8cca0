//! State that clients make the pooler remember: it is bounded, and it is accounted for.
//!
//! Always true: the counts are those that the console shows.
//! Not here: what it costs other clients (`hostile`).

use tests::pooler::{Ini, Pooler};
use tests::wait::{LIMIT, wait_until};

use crate::house::House;

/// A client may use any user name, and previously every name was remembered for ever.
pub(crate) fn users_who_were_seen_once_are_forgotten(house: &House) {
    let line = format!("{} user=u password=secret", house.line("postgres"));
    let pooler = house.start(&Ini::new(&line).set("auth_type = any"));
    let mut stays = pooler.client("stays", "postgres");
    for number in 0..2_500 {
        pooler.client(&format!("seen_once_{number}"), "postgres");
    }
    let known = table(&pooler, "user_cache");
    assert!(known <= 1_100, "{known} users are known");
    assert_eq!(stays.value("select current_user"), "u");
    let users = pooler.console("SHOW USERS");
    let stays = (0..users.rows.len()).map(|at| users.named(at)).find(|row| row["name"] == "stays");
    assert_eq!(stays.expect("it is connected")["current_client_connections"], "1");
}

/// How many rows of a table are in use.
fn table(pooler: &Pooler, name: &str) -> u64 {
    let tables = pooler.console("SHOW MEM");
    let rows = (0..tables.rows.len()).map(|at| tables.named(at));
    let used = rows.filter(|row| row["name"] == name).map(|row| row["used"].parse::<u64>());
    used.map(|used| used.expect("a number")).sum()
}

/// Previously a thousand settings with a dot, used by one user, made every client of the database keep its server that might
/// have set such a setting.
pub(crate) fn settings_that_one_user_mentions_keep_no_server_of_another(house: &House) {
    let pooler = house.pooler("remembered_settings", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut floods = Vec::new();
    // So many settings of one client would keep its server.
    for flood in 0..3 {
        let mut client = pooler.client("u", "remembered_settings");
        for number in 0..700 {
            client.run(&format!("set a{flood}.b{number} = 'x'"));
        }
        floods.push(client);
    }
    floods[0].run(
        "create function sets(name text, value text) returns void language plpgsql as
            $$ begin perform set_config(name, value, false); end $$",
    );
    let (mut one, mut two) = (pooler.client("v", "remembered_settings"), pooler.client("v", "remembered_settings"));
    let sets = "select sets('app.tenant', 'one')";
    one.run(sets);
    assert_eq!(two.value("select coalesce(current_setting('app.tenant', true), '')"), "");
    assert_eq!(one.value("select current_setting('app.tenant')"), "one");
    assert_eq!(pooler.console("SHOW PINS").rows.len(), 0);
    // Nor of a client of the same user that connects later.
    drop(floods);
    let (mut three, mut four) = (pooler.client("u", "remembered_settings"), pooler.client("u", "remembered_settings"));
    three.run(sets);
    assert_eq!(four.value("select coalesce(current_setting('app.tenant', true), '')"), "");
    assert_eq!(three.value("select current_setting('app.tenant')"), "one");
}

/// Previously a client that listened to a million channels made the session for all listen to them, and the pooler remember
/// them in three places.
pub(crate) fn who_listens_to_too_many_channels_keeps_a_server(house: &House) {
    let database = "remembered_channels";
    let settings =
        ["pool_mode = transaction", "default_pool_size = 3", "max_client_channels = 3", "max_db_channels = 6"];
    let pooler = house.pooler(database, &settings);
    let (mut one, mut two) = (pooler.client("u", database), pooler.client("v", database));
    one.run("listen a; listen b; listen c");
    await_shared(&pooler, 3);
    await_kept(&pooler, 0);
    one.run("listen a; listen d");
    await_kept(&pooler, 2);
    let mut direct = house.postgres.client(database);
    direct.run("notify a, '1'; notify d, '2'; notify c, '3'");
    let mut heard = one.heard(3);
    heard.sort();
    assert_eq!(heard, ["a 1", "c 3", "d 2"], "whoever listens");
    // There is room for the channels of other clients, up to the limit of the database.
    two.run("listen d; listen e; listen f");
    await_shared(&pooler, 6);
    await_kept(&pooler, 2);
    one.run("unlisten b; unlisten d");
    await_kept(&pooler, 0);
    direct.run("notify a, '4'; notify d, '5'; notify f, '6'");
    assert_eq!((one.heard(1), two.heard(2)), (vec!["a 4".to_owned()], vec!["d 5".to_owned(), "f 6".to_owned()]));
    let mut three = pooler.client("v", database);
    three.run("listen a; listen e; listen g; listen h");
    await_kept(&pooler, 4);
    // Listening to a channel that is already listened to takes no room.
    three.run("unlisten g; unlisten h");
    await_kept(&pooler, 0);
    direct.run("notify e, '7'");
    assert_eq!((two.heard(1), three.heard(1)), (vec!["e 7".to_owned()], vec!["e 7".to_owned()]));
}

/// Waits until so many channels are shared: before, no client keeps a server for a pin that SHOW PINS lists.
fn await_shared(pooler: &Pooler, count: usize) {
    wait_until("so many channels are shared", LIMIT, || {
        let channels = pooler.console("SHOW CHANNELS");
        (0..channels.rows.len()).filter(|row| channels.named(*row)["state"] == "shared").count() == count
    });
}

/// Waits until so many pins are left.
fn await_kept(pooler: &Pooler, count: usize) {
    wait_until("so many pins are left", LIMIT, || {
        let active = pooler.console("SHOW SERVERS");
        let active = (0..active.rows.len()).filter(|row| active.named(*row)["state"] == "active").count();
        let kept = pooler.console("SHOW PINS");
        let mut servers: Vec<String> = (0..kept.rows.len()).map(|row| kept.named(row)["server"].clone()).collect();
        servers.dedup();
        // One server listens for all.
        kept.rows.len() == count && active == servers.len() + 1
    });
}
