//! Roles of sessions, and settings that only some servers accept: no other client may inherit them, and the client itself
//! must not lose them.

use tests::client::Client;
use tests::pooler::Pooler;

use crate::house::House;

/// Makes the client's next transaction run on another server than its last one.
fn elsewhere(pooler: &Pooler, client: &mut Client, user: &str, database: &str) {
    let before = client.server_pid();
    let mut holder = pooler.client(user, database);
    holder.run("begin");
    if holder.server_pid() != before {
        // The holder has the other server; now the client's own one is taken.
        let mut other = pooler.client(user, database);
        other.run("begin");
        assert_eq!(other.server_pid(), before);
        holder.run("rollback");
        assert_ne!(client.server_pid(), before);
        other.run("rollback");
    } else {
        assert_ne!(client.server_pid(), before);
        holder.run("rollback");
    }
}

/// A change of the session authorization, also to the same user, resets the role: on every server.
pub(crate) fn a_role_ends_with_the_session_authorization_it_was_taken_in(house: &House) {
    let pooler = house.pooler("identity", &["pool_mode = transaction", "default_pool_size = 2"]);
    let mut setup = house.postgres.client("identity");
    setup.run("create role identity_one; create role identity_two; grant identity_one, identity_two to u");
    for (first, then) in [
        ("set role identity_one", "set session authorization u"),
        ("set role identity_one", "reset session authorization"),
        ("set session authorization u; set role identity_one", "set session authorization default"),
        ("set role identity_one", "select set_config('session_authorization', 'u', false)"),
    ] {
        let mut client = pooler.client("u", "identity");
        client.run(first);
        assert_eq!(client.value("select current_user"), "identity_one", "{first}");
        elsewhere(&pooler, &mut client, "u", "identity");
        assert_eq!(client.value("select current_user"), "identity_one", "{first}");
        client.run(then);
        for _ in 0..2 {
            assert_eq!(
                client.value("select current_user || ' ' || current_setting('role')"),
                "u none",
                "{first}; {then}"
            );
            elsewhere(&pooler, &mut client, "u", "identity");
        }
    }
}

/// A server that has had temporary tables refuses another `temp_buffers`: a client that has set it stays on its server.
pub(crate) fn temp_buffers_stay_with_their_server(house: &House) {
    let pooler = house.pooler("identity_temp", &["pool_mode = transaction", "default_pool_size = 2"]);
    let mut one = pooler.client("u", "identity_temp");
    let mut two = pooler.client("u", "identity_temp");
    one.run("begin");
    two.run("create temp table used (a int); insert into used values (1); drop table used");
    one.run("set temp_buffers = '2MB'; commit");
    let server = one.server_pid();
    // Other clients try to take the server.
    let (mut three, mut four) = (pooler.client("u", "identity_temp"), pooler.client("u", "identity_temp"));
    three.run("begin");
    four.ask("begin");
    if three.server_pid() != server {
        three.run("rollback");
        four.answer();
    }
    assert_eq!((one.value("show temp_buffers"), one.server_pid()), ("2MB".to_owned(), server));
    drop((three, four));
    one.run("discard all");
    assert_eq!(one.value("show temp_buffers"), "8MB");
}

/// A session keeps the OID of a role from SET ROLE: a client that sets the role by name later gets the role that has the
/// name then.
pub(crate) fn a_role_is_whom_its_name_means_now(house: &House) {
    let pooler = house.pooler("identity_name", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut owner = house.postgres.client("identity_name");
    owner.run("create role identity_app; grant identity_app to u");
    owner.run("create table secret (a int); grant select on secret to identity_app");
    let number = "select oid::text from pg_roles where rolname = 'identity_app'";
    let mut one = pooler.client("u", "identity_name");
    one.run("set role identity_app");
    assert_eq!(one.value("select count(*) from secret"), "0");
    for change in [
        "alter role identity_app rename to identity_old; create role identity_app; grant identity_app to u",
        "drop role identity_app; create role identity_app; grant identity_app to u",
    ] {
        owner.run(change);
        let expected = owner.value(number);
        let mut other = pooler.client("u", "identity_name");
        other.run("set role identity_app");
        assert_eq!(other.value("select current_user::regrole::oid::text"), expected, "{change}");
        assert_eq!(other.query("select count(*) from secret").error().code, "42501", "{change}");
        other.run("reset role");
        // A client that set the role before keeps only its name.
        assert_eq!(one.value("select current_user::regrole::oid::text"), expected, "{change}");
    }
}

/// Settings that PostgreSQL shows only to some roles follow the client, too, whatever its role.
pub(crate) fn settings_that_few_are_shown_are_followed_too(house: &House) {
    let pooler = house.pooler("identity_shown", &["pool_mode = transaction", "default_pool_size = 1"]);
    let mut owner = house.postgres.client("identity_shown");
    owner.run("create role identity_blind; grant identity_blind to u");
    let body = "begin perform set_config('dynamic_library_path', '/x', false); end";
    owner.run(&format!("create function sets() returns void language plpgsql as $${body}$$"));
    let (mut one, mut two) = (pooler.client("u", "identity_shown"), pooler.client("u", "identity_shown"));
    let first = two.value("show dynamic_library_path");
    for becoming in ["set role identity_blind", "set session authorization identity_blind"] {
        one.run(&format!("begin; select sets(); {becoming}; commit"));
        assert_eq!(two.value("show dynamic_library_path"), first, "{becoming}");
        assert_eq!(one.value("select current_user"), "identity_blind", "{becoming}");
        one.run("reset session authorization; reset role");
        assert_eq!(one.value("show dynamic_library_path"), "/x", "{becoming}");
        one.run("discard all");
    }
}
