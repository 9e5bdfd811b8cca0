//! Drivers that use only the extended protocol, at the console.

use std::time::Duration;

use tests::client::Client;
use tests::message;
use tests::pooler::Pooler;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Config, NoTls};

use crate::house::House;

/// Limit for a whole conversation.
const LONG: Duration = Duration::from_secs(60);

/// The binary form of a value, whatever its type.
struct Raw(Vec<u8>);

impl<'r> FromSql<'r> for Raw {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

pub(crate) fn a_driver_that_prepares_everything_asks_the_console(house: &House) {
    let pooler = house.pooler("drivers", &["admin_users = admin"]);
    pooler.client("u", "drivers").run("select 1");
    pooler.await_pool("drivers", "sv_idle", "1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let asks = async {
        let mut config = Config::new();
        config.host("127.0.0.1").port(pooler.port()).user("admin").dbname("pgbouncer");
        let (client, connection) = config.connect(NoTls).await.expect("let in");
        let connection = tokio::spawn(connection);
        // Prepared with a name, described, bound, and read in binary format.
        let pools = client.query("SHOW POOLS", &[]).await.expect("a table");
        let pool = pools.iter().find(|row| row.get::<_, &str>("database") == "drivers").expect("our pool");
        assert_eq!((pool.get::<_, &str>("user"), pool.get::<_, i32>("sv_idle")), ("u", 1));
        let statement = client.prepare("SHOW STATS_TOTALS").await.expect("a statement");
        assert_eq!(statement.columns()[1].name(), "server_assignment_count");
        assert_eq!(*statement.columns()[1].type_(), Type::NUMERIC);
        for _ in 0..2 {
            let totals = client.query(&statement, &[]).await.expect("a table");
            let row = totals.iter().find(|row| row.get::<_, &str>("database") == "drivers").expect("our database");
            // A numeric of one digit, of weight 0, without a sign: 1.
            assert_eq!(row.get::<_, Raw>(1).0, [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        }
        assert_eq!(client.query("SHOW DNS_HOSTS", &[]).await.expect("an empty table").len(), 0);
        client.execute("PAUSE drivers", &[]).await.expect("obeyed");
        client.execute("RESUME drivers", &[]).await.expect("obeyed");
        let refused = client.query("SHOW $1", &[]).await.expect_err("no parameters");
        assert_eq!(refused.as_db_error().expect("an answer").message(), "console commands take no parameters");
        let refused = client.query("RESUME drivers", &[]).await.expect_err("it is not paused");
        assert_eq!(refused.as_db_error().expect("an answer").message(), "database drivers is not paused");
        assert_eq!(client.query("SHOW VERSION", &[]).await.expect("a table").len(), 1, "and it goes on");
        drop(client);
        connection.await.expect("it ends").expect("well");
    };
    runtime.block_on(async { tokio::time::timeout(LONG, asks).await.expect("it is answered in time") });
}

/// Messages that arrive in one piece are answered in order, however many they are.
pub(crate) fn a_pipeline_at_the_console_is_answered_in_order(house: &House) {
    let pooler = house.pooler("console_pipeline", &[]);
    let mut console = pooler.client("admin", "pgbouncer");
    let one = |text: &str| {
        let parts = [message::parse("", text), message::bind("", "", &[]), message::execute("", 0)];
        parts.concat()
    };
    let rows = ["SHOW VERSION", "SHOW STATE"].map(|text| pooler.console(text).rows.len());
    let mut bytes = Vec::new();
    for _ in 0..200 {
        bytes.extend([one("SHOW VERSION"), one("SHOW STATE"), message::sync()].concat());
    }
    bytes
        .extend([one("nonsense"), one("SHOW VERSION"), message::sync(), one("SHOW VERSION"), message::sync()].concat());
    console.peer.send(&bytes);
    for _ in 0..200 {
        let answer = console.answer();
        assert_eq!((answer.tags.len(), answer.rows.len(), answer.status), (2, rows[0] + rows[1], 'I'), "{answer:?}");
    }
    let refused = console.answer();
    assert_eq!((refused.error().text.as_str(), refused.rows.len()), ("invalid command 'nonsense', use SHOW HELP;", 0));
    assert_eq!(console.answer().rows.len(), rows[0]);
    broken(&pooler);
}

/// A message that cannot be read ends the connection, as in any other database.
fn broken(pooler: &Pooler) {
    for (kind, body, text) in [
        (b'P', &b"\0SHOW VERSION\0"[..], "broken Parse packet"),
        (b'B', b"\0\0\0\0\0\x01", "broken Bind packet"),
        (b'D', b"X\0", "broken Describe packet"),
        (b'E', b"\0", "broken Execute packet"),
        (b'C', b"", "broken Close packet"),
    ] {
        let mut console: Client = pooler.client("admin", "pgbouncer");
        console.peer.send(&message::frame(kind, body));
        assert_eq!(console.answer().error().text, text);
    }
}
