//! sqlx, without its macros and, except for one case, without its pool.
//!
//! Always true: a query is prepared with a name, described and cached, and run in the next round trip, as the driver does on
//! its own.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use md5::{Digest, Md5};
use rust_drivers::{
    BIG, Failure, Given, LOCK_MAX, Outcome, cases, check, impossible, is_running, look_again, same, tag, together,
    whole,
};
use sqlx::postgres::types::{PgInterval, PgRange};
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgErrorPosition, PgPoolOptions, PgRow, PgSeverity, PgSslMode};
use sqlx::types::Decimal;
use sqlx::types::chrono::{DateTime, NaiveDate, Utc};
use sqlx::{
    AssertSqlSafe, Connection, Decode, Encode, Error, PgConnection, Postgres, Row, Type, query, query_scalar, raw_sql,
};
use uuid::Uuid;

static GIVEN: LazyLock<Given> = LazyLock::new(Given::read);

fn options(user: &str) -> PgConnectOptions {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(GIVEN.port).username(user);
    options.database(&GIVEN.database).ssl_mode(PgSslMode::Disable)
}

async fn connect(user: &str) -> Result<PgConnection, Error> {
    dial(options(user)).await
}

async fn dial(options: PgConnectOptions) -> Result<PgConnection, Error> {
    PgConnection::connect_with(&options).await
}

fn safe(text: impl Into<String>) -> AssertSqlSafe<String> {
    AssertSqlSafe(text.into())
}

/// Several statements, in one Query message.
async fn run(conn: &mut PgConnection, text: &str) -> Result<(), Error> {
    raw_sql(safe(text)).execute(conn).await.map(|_| ())
}

async fn plain<V>(conn: &mut PgConnection, text: &str) -> Result<V, Error>
where
    V: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
{
    query_scalar(safe(text)).fetch_one(conn).await
}

async fn value<V, G>(conn: &mut PgConnection, text: &str, given: G) -> Result<V, Error>
where
    V: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
    G: for<'q> Encode<'q, Postgres> + Type<Postgres> + Send + 'static,
{
    query_scalar(safe(text)).bind(given).fetch_one(conn).await
}

async fn whose(conn: &mut PgConnection, mark: &str) -> Outcome {
    same("a foreign answer", value::<String, _>(conn, "select $1::text", mark.to_owned()).await?, mark);
    Ok(())
}

#[track_caller]
fn said(error: &Error) -> &PgDatabaseError {
    let said = error.as_database_error().and_then(|error| error.try_downcast_ref());
    said.unwrap_or_else(|| panic!("no word of the server but {}", whole(error)))
}

async fn fails(conn: &mut PgConnection, code: &str, text: &str) -> Error {
    let error = run(conn, text).await.expect_err(text);
    same(format_args!("code of {text}"), said(&error).code(), code);
    error
}

async fn await_running(conn: &mut PgConnection, mark: &str) -> Outcome {
    let (question, begun) = (is_running(mark), Instant::now());
    while plain::<i64>(conn, &question).await? == 0 {
        look_again(mark, begun).await;
    }
    Ok(())
}

async fn login(options: PgConnectOptions, user: &str) -> Outcome {
    let mut conn = dial(options).await?;
    same("user", plain::<String>(&mut conn, "select current_user::text").await?, user);
    conn.close().await?;
    Ok(())
}

async fn connect_tcp() -> Outcome {
    whose(&mut connect("u").await?, &tag("connect_tcp", 0)).await
}

async fn connect_unix() -> Outcome {
    whose(&mut dial(options("u").socket(&GIVEN.sockets)).await?, &tag("connect_unix", 0)).await
}

async fn auth_md5() -> Outcome {
    login(options("by_md5").password(&GIVEN.secret), "by_md5").await
}

async fn auth_scram() -> Outcome {
    login(options("by_scram").password(&GIVEN.secret), "by_scram").await
}

async fn auth_scram_plus() -> Outcome {
    impossible("sqlx does not bind SCRAM to a channel")
}

async fn auth_wrong() -> Outcome {
    for user in ["by_md5", "by_scram"] {
        let error = dial(options(user).password("wrong")).await.map(|_| ()).expect_err("was let in");
        check(said(&error).message().contains("authentication failed"), &error);
        same("code", said(&error).code(), GIVEN.auth_wrong_code());
    }
    Ok(())
}

async fn tls_require() -> Outcome {
    login(options("by_tls").ssl_mode(PgSslMode::Require), "by_tls").await?;
    check(connect("by_tls").await.is_err(), "was let in without TLS");
    Ok(())
}

async fn tls_verify_full() -> Outcome {
    let options = options("by_tls").host("localhost").ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(&GIVEN.ca);
    login(options, "by_tls").await
}

async fn tls_wrong_name() -> Outcome {
    let options = options("by_tls").ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(&GIVEN.ca);
    let error = dial(options).await.map(|_| ()).expect_err("another name was accepted");
    check(whole(&error).contains("certificate"), whole(&error));
    Ok(())
}

async fn tls_certificate() -> Outcome {
    let unknown = options("by_cert").ssl_mode(PgSslMode::Require);
    login(unknown.clone().ssl_client_cert(&GIVEN.cert).ssl_client_key(&GIVEN.key), "by_cert").await?;
    check(dial(unknown).await.is_err(), "was let in without a certificate");
    Ok(())
}

async fn prepared_shared() -> Outcome {
    together(20, async |number| {
        let mut conn = connect("u").await?;
        for turn in 0..15 {
            let mark = tag("shared", number * 1000 + turn);
            let mut tx = conn.begin().await?;
            let row =
                query("select $1::text, $2::int").bind(mark.clone()).bind(turn as i32).fetch_one(&mut *tx).await?;
            same(
                "a foreign answer",
                (row.try_get::<String, _>(0)?, row.try_get::<i32, _>(1)?),
                (mark.clone(), turn as i32),
            );
            let own = format!("select $1::text || '-own-{number}'");
            let found: String = value(&mut tx, &own, mark.clone()).await?;
            same("a foreign answer", found.clone(), format!("{mark}-own-{number}"));
            tx.commit().await?;
            same("a foreign answer", value::<String, _>(&mut conn, &own, mark).await?, found);
        }
        Ok(())
    })
    .await
}

async fn prepared_many() -> Outcome {
    let mut conn = connect("u").await?;
    for _ in 0..3 {
        for number in 0..60 {
            let mark = tag("many", number);
            let found: String = value(&mut conn, &format!("select $1::text || '-{number}'"), mark.clone()).await?;
            same("a foreign answer", found, format!("{mark}-{number}"));
        }
    }
    Ok(())
}

async fn prepared_deallocate() -> Outcome {
    // The driver closes the oldest statement when it has more than these.
    let mut conn = dial(options("u").statement_cache_capacity(5)).await?;
    for number in 0..40 {
        let found: i32 = value(&mut conn, &format!("select $1::int + {number}"), number).await?;
        same("answer", found, 2 * number);
    }
    whose(&mut conn, &tag("prepared_deallocate", 0)).await?;
    conn.clear_cached_statements().await?;
    whose(&mut conn, &tag("prepared_deallocate", 1)).await
}

async fn prepared_after_error() -> Outcome {
    let mut conn = connect("u").await?;
    let error = value::<i32, _>(&mut conn, "select $1::int from not_there", 1).await.expect_err("no such table");
    same("code", said(&error).code(), "42P01");
    let divide = "select 1 / $1::int";
    let error = value::<i32, _>(&mut conn, divide, 0).await.expect_err("a division by zero");
    same("code", said(&error).code(), "22012");
    same("answer", value::<i32, _>(&mut conn, divide, 1).await?, 1);
    let mut tx = conn.begin().await?;
    let error = value::<i32, _>(&mut tx, divide, 0).await.expect_err("a division by zero");
    same("code", said(&error).code(), "22012");
    tx.rollback().await?;
    same("answer", value::<i32, _>(&mut conn, divide, -1).await?, -1);
    Ok(())
}

/// A query that is not cached is prepared without a name in one round trip, and run in the next.
async fn unnamed_over_syncs() -> Outcome {
    together(20, async |number| {
        let mut conn = connect("u").await?;
        for turn in 0..50 {
            let mark = tag("unnamed", number * 1000 + turn);
            let text = safe(format!("select $1::text || '-own-{number}'"));
            let asked = query_scalar::<_, String>(text).bind(mark.clone()).persistent(false);
            let found = asked.fetch_one(&mut conn).await;
            let found = found.as_deref().map_err(|error| said(error).code());
            GIVEN.unnamed(found, &format!("{mark}-own-{number}"))?;
        }
        Ok(())
    })
    .await
}

/// The driver has no pipeline mode, but queries of several statements.
async fn pipeline() -> Outcome {
    let mut conn = connect("u").await?;
    let mark = tag("pipeline", 0);
    let text = format!("select 'first'; select '{mark}' from generate_series(1, 3); select 'third'");
    let rows: Vec<PgRow> = raw_sql(safe(text)).fetch(&mut conn).try_collect().await?;
    let heard = rows.iter().map(|row| row.try_get::<&str, _>(0)).collect::<Result<Vec<_>, _>>()?;
    same("answers", heard, vec!["first", &mark, &mark, &mark, "third"]);
    Ok(())
}

async fn pipeline_error() -> Outcome {
    let mut conn = connect("u").await?;
    fails(&mut conn, "22012", "select 1; select 1 / 0; select 2").await;
    whose(&mut conn, &tag("pipeline_error", 0)).await
}

async fn cursor() -> Outcome {
    let mut conn = connect("u").await?;
    let mut tx = conn.begin().await?;
    let mark = tag("cursor", 0);
    let declare = format!("declare pieces cursor for select n, '{mark}' from generate_series(1, 5000) n");
    run(&mut tx, &declare).await?;
    let mut count = 0;
    loop {
        let before = count;
        let mut rows = query("fetch 700 from pieces").fetch(&mut *tx);
        while let Some(row) = rows.try_next().await? {
            count += 1;
            same("a foreign row", (row.try_get::<i32, _>(0)?, row.try_get::<String, _>(1)?), (count, mark.clone()));
        }
        if count == before {
            break;
        }
    }
    same("rows", count, 5000);
    tx.commit().await?;
    // When rows are not read to the end, the driver discards the rest before its next query.
    let mut rows = query("select generate_series(1, 100000)").fetch(&mut conn);
    check(rows.try_next().await?.is_some(), "nothing came");
    drop(rows);
    whose(&mut conn, &mark).await
}

async fn copy_in() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists incoming_sqlx (n int, who text); truncate incoming_sqlx").await?;
    let mark = tag("copy_in", 0);
    let mut copy = conn.copy_in_raw("copy incoming_sqlx from stdin").await?;
    for piece in 0..20 {
        let rows: String = (0..1000).map(|number| format!("{}\t{mark}\n", piece * 1000 + number)).collect();
        copy.send(rows.as_bytes()).await?;
    }
    same("rows", copy.finish().await?, 20000);
    let found: i64 = value(&mut conn, "select count(distinct n) from incoming_sqlx where who = $1", mark).await?;
    same("rows", found, 20000);
    run(&mut conn, "drop table incoming_sqlx").await?;
    Ok(())
}

async fn copy_out() -> Outcome {
    use sqlx::postgres::PgPoolCopyExt as _;

    let pool = PgPoolOptions::new().max_connections(1).connect_with(options("u")).await?;
    let mark = tag("copy_out", 0);
    let text = format!("copy (select n, '{mark}' from generate_series(1, 100000) n) to stdout");
    let pieces: Vec<_> = pool.copy_out_raw(&text).await?.try_collect().await?;
    let text = String::from_utf8(pieces.concat())?;
    same("rows", text.lines().count(), 100000);
    for (at, line) in text.lines().enumerate() {
        same("a foreign row", line, format!("{}\t{mark}", at + 1));
    }
    whose(&mut *pool.acquire().await?, &mark).await?;
    pool.close().await;
    Ok(())
}

async fn copy_failed() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists copied_sqlx (n int); truncate copied_sqlx").await?;
    let mut copy = conn.copy_in_raw("copy copied_sqlx from stdin").await?;
    let rows = "1\nnot a number\n".repeat(1000);
    for _ in 0..20 {
        copy.send(rows.as_bytes()).await?;
    }
    let error = copy.finish().await.expect_err("a copy of nonsense");
    same("code", said(&error).code(), "22P02");
    same("rows", plain::<i64>(&mut conn, "select count(*) from copied_sqlx").await?, 0);
    run(&mut conn, "drop table copied_sqlx").await?;
    Ok(())
}

async fn copy_abandoned() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists left_sqlx (n int); truncate left_sqlx").await?;
    let rows = "1\n".repeat(10000);
    let mut copy = conn.copy_in_raw("copy left_sqlx from stdin").await?;
    copy.send(rows.as_bytes()).await?;
    copy.abort("enough").await?;
    let mut copy = conn.copy_in_raw("copy left_sqlx from stdin").await?;
    copy.send(rows.as_bytes()).await?;
    // The COPY is neither ended nor failed; the driver then takes the server's answer to it for the answer to the next
    // query.
    drop(copy);
    let error = plain::<i32>(&mut conn, "select 1").await.expect_err("nothing was said of the copy");
    same("code", said(&error).code(), "57014");
    let mut conn = connect("u").await?;
    same("rows", plain::<i64>(&mut conn, "select count(*) from left_sqlx").await?, 0);
    run(&mut conn, "drop table left_sqlx").await?;
    Ok(())
}

async fn cancel_timeout() -> Outcome {
    let mut conn = connect("u").await?;
    fails(&mut conn, "57014", "begin; set local statement_timeout = '100ms'; select pg_sleep(50)").await;
    run(&mut conn, "rollback").await?;
    whose(&mut conn, &tag("cancel_timeout", 0)).await?;
    // Abandoning an answer does not cancel the query; the next one waits for its end.
    let given_up = tokio::time::timeout(Duration::from_millis(100), run(&mut conn, "select pg_sleep(1)")).await;
    check(given_up.is_err(), "it was answered too early");
    whose(&mut conn, &tag("cancel_timeout", 1)).await
}

async fn cancel_by_hand() -> Outcome {
    impossible("sqlx sends no cancel requests")
}

async fn error_fields() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists unique_sqlx (n int constraint only_once_sqlx unique)").await?;
    run(&mut conn, "truncate unique_sqlx; insert into unique_sqlx values (1)").await?;
    let error = fails(&mut conn, "23505", "insert into unique_sqlx values (1)").await;
    let told = said(&error);
    check(matches!(told.severity(), PgSeverity::Error), "another severity");
    let fields = [told.schema(), told.table(), told.constraint(), told.detail()];
    same("fields", fields, ["public", "unique_sqlx", "only_once_sqlx", "Key (n)=(1) already exists."].map(Some));
    let error = fails(&mut conn, "42601", "select 1 frum there").await;
    check(matches!(said(&error).position(), Some(PgErrorPosition::Original(15))), "another position");
    let raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$";
    let error = fails(&mut conn, "XX123", raised).await;
    let told = said(&error);
    same("fields", [Some(told.message()), told.hint(), told.detail()], ["own", "none", "much"].map(Some));
    run(&mut conn, "drop table unique_sqlx").await?;
    Ok(())
}

async fn error_in_transaction() -> Outcome {
    let mut conn = connect("u").await?;
    let mut tx = conn.begin().await?;
    fails(&mut tx, "22012", "select 1 / 0").await;
    fails(&mut tx, "25P02", "select 1").await;
    tx.rollback().await?;
    whose(&mut conn, &tag("error_in_transaction", 0)).await
}

async fn transaction() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists kept_sqlx (who text); truncate kept_sqlx").await?;
    let insert = "insert into kept_sqlx values ($1)";
    let mut tx = conn.begin().await?;
    query(insert).bind(tag("lost", 0)).execute(&mut *tx).await?;
    // Neither committed nor rolled back: the driver rolls back.
    drop(tx);
    let mut tx = conn.begin_with("begin isolation level serializable").await?;
    query(insert).bind(tag("kept", 0)).execute(&mut *tx).await?;
    same("level", plain::<String>(&mut tx, "show transaction_isolation").await?, "serializable");
    tx.commit().await?;
    let who: String = plain(&mut conn, "select string_agg(who, ',') from kept_sqlx").await?;
    same("who", who, tag("kept", 0));
    run(&mut conn, "drop table kept_sqlx").await?;
    Ok(())
}

async fn savepoint() -> Outcome {
    let mut conn = connect("u").await?;
    let mut tx = conn.begin().await?;
    let pid: i32 = plain(&mut tx, "select pg_backend_pid()").await?;
    for turn in 0..3 {
        let mut inner = tx.begin().await?;
        fails(&mut inner, "22012", "select 1 / 0").await;
        inner.rollback().await?;
        let mut inner = tx.begin().await?;
        whose(&mut inner, &tag("savepoint", turn)).await?;
        inner.commit().await?;
    }
    same("server", plain::<i32>(&mut tx, "select pg_backend_pid()").await?, pid);
    tx.commit().await?;
    Ok(())
}

async fn big_value() -> Outcome {
    let mut conn = connect("u").await?;
    let big: Vec<u8> = (0..BIG).map(|at| (at * 7) as u8).collect();
    let sum: String = Md5::digest(&big).iter().map(|byte| format!("{byte:02x}")).collect();
    same("sum", value::<String, _>(&mut conn, "select md5($1::bytea)", big.clone()).await?, sum);
    let found: Vec<u8> = value(&mut conn, "select $1::bytea", big.clone()).await?;
    check(found == big, "other bytes came back");
    whose(&mut conn, &tag("big_value", 0)).await
}

async fn notice() -> Outcome {
    impossible("sqlx tells notices to its log only")
}

async fn types() -> Outcome {
    async fn there_and_back<V>(conn: &mut PgConnection, name: &str, given: V) -> Outcome
    where
        V: for<'q> Encode<'q, Postgres> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
        V: Clone + PartialEq + std::fmt::Debug + Send + Unpin + 'static,
    {
        let found: V = value(conn, &format!("select $1::{name}"), given.clone()).await?;
        same(name, found, given);
        Ok(())
    }
    let conn = &mut connect("u").await?;
    there_and_back(conn, "int4[]", vec![Some(1), Some(-2), None, Some(3)]).await?;
    let texts = ["a", "quoted \" and \\", "", &tag("types", 0)].map(str::to_owned);
    there_and_back(conn, "text[]", texts.to_vec()).await?;
    there_and_back(conn, "jsonb", serde_json::json!({"a": [1, null, {"b": "c"}]})).await?;
    let number: Decimal = "1234567890123456789.123456789".parse()?;
    there_and_back(conn, "numeric", number).await?;
    let when = DateTime::<Utc>::from_timestamp_micros(1_772_323_199_999_999).expect("within range");
    there_and_back(conn, "timestamptz", when).await?;
    there_and_back(conn, "date", NaiveDate::from_ymd_opt(1, 1, 1).expect("within range")).await?;
    there_and_back(conn, "bytea", (0..=255).collect::<Vec<u8>>()).await?;
    there_and_back(conn, "uuid", Uuid::from_u128(0x1234)).await?;
    there_and_back(conn, "float8", 1e-300).await?;
    there_and_back(conn, "bool", true).await?;
    there_and_back(conn, "interval", PgInterval { months: 0, days: 3, microseconds: 4_000_000 }).await?;
    there_and_back(conn, "int4range", PgRange::from(1..5)).await?;
    there_and_back(conn, "text", None::<String>).await?;
    Ok(())
}

async fn parameters() -> Outcome {
    let mut conn = dial(options("u").application_name("mine")).await?;
    let mut other = dial(options("u").application_name("other")).await?;
    run(&mut conn, "set timezone = 'Asia/Tokyo'").await?;
    for _ in 0..5 {
        // The second connection keeps a server busy, so that the first does not always get the same one.
        let mut tx = other.begin().await?;
        same("other's name", plain::<String>(&mut tx, "show application_name").await?, "other");
        same("name", plain::<String>(&mut conn, "show application_name").await?, "mine");
        same("zone", plain::<String>(&mut conn, "show timezone").await?, "Asia/Tokyo");
        // The driver sets a time zone of its own when it connects.
        same("other's zone", plain::<String>(&mut tx, "show timezone").await?, "UTC");
        tx.commit().await?;
    }
    // The driver's own pool.
    let pool = PgPoolOptions::new().max_connections(3).connect_with(options("u")).await?;
    let asked = (0..100).map(|number| {
        let pool = &pool;
        async move {
            let found: String = query_scalar("select $1::text").bind(tag("pool", number)).fetch_one(pool).await?;
            same("a foreign answer", found, tag("pool", number));
            Ok::<_, Failure>(())
        }
    });
    futures_util::stream::iter(asked).buffer_unordered(20).try_collect::<()>().await?;
    pool.close().await;
    Ok(())
}

async fn close_midway() -> Outcome {
    let mut conn = connect("u").await?;
    run(&mut conn, "create table if not exists locked_sqlx (n int); truncate locked_sqlx").await?;
    run(&mut conn, "insert into locked_sqlx values (1)").await?;
    let mut gone = connect("u").await?;
    run(&mut gone, "begin; update locked_sqlx set n = 2").await?;
    let mark = tag("close_midway", 0);
    let text = GIVEN.slept_midway(&mark);
    let asleep = tokio::spawn(async move { run(&mut gone, &text).await });
    await_running(&mut conn, &mark).await?;
    // The task owns the connection, which is closed with it.
    asleep.abort();
    check(asleep.await.is_err(), "it came to its end");
    run(&mut conn, &format!("begin; set local lock_timeout = '{LOCK_MAX}'")).await?;
    same("row", plain::<i32>(&mut conn, "update locked_sqlx set n = n + 10 returning n").await?, 11);
    run(&mut conn, "commit; drop table locked_sqlx").await?;
    Ok(())
}

async fn server_gone() -> Outcome {
    let (mut conn, mut other) = (connect("u").await?, connect("u").await?);
    let mut tx = conn.begin().await?;
    let pid: i32 = plain(&mut tx, "select pg_backend_pid()").await?;
    value::<bool, _>(&mut other, "select pg_terminate_backend($1)", pid).await?;
    check(run(&mut tx, "select pg_sleep(10)").await.is_err(), "the end was not noticed");
    drop(tx);
    check(conn.ping().await.is_err(), "the connection is still used");
    whose(&mut other, &tag("server_gone", 0)).await
}

fn shows_itself(rows: &[PgRow]) -> bool {
    rows.iter().any(|row| row.try_get::<&str, _>("database").is_ok_and(|name| name == "pgbouncer"))
}

async fn console_simple() -> Outcome {
    GIVEN.through_pooler()?;
    let mut conn = dial(options("stats").database("pgbouncer")).await?;
    let rows = raw_sql("show pools").fetch_all(&mut conn).await?;
    check(shows_itself(&rows), "the console's own pool is not shown");
    Ok(())
}

async fn console_extended() -> Outcome {
    GIVEN.through_pooler()?;
    let mut conn = dial(options("stats").database("pgbouncer")).await?;
    for keeps in [true, false] {
        let rows = query("show pools").persistent(keeps).fetch_all(&mut conn).await?;
        check(shows_itself(&rows), "the console's own pool is not shown");
    }
    let version: String = plain(&mut conn, "show version").await?;
    check(version.starts_with("PgBouncer "), version);
    Ok(())
}

fn main() {
    rust_drivers::run(
        "sqlx",
        cases![
            connect_tcp,
            connect_unix,
            auth_md5,
            auth_scram,
            auth_scram_plus,
            auth_wrong,
            tls_require,
            tls_verify_full,
            tls_wrong_name,
            tls_certificate,
            prepared_shared,
            prepared_many,
            prepared_deallocate,
            prepared_after_error,
            unnamed_over_syncs,
            pipeline,
            pipeline_error,
            cursor,
            copy_in,
            copy_out,
            copy_failed,
            copy_abandoned,
            cancel_timeout,
            cancel_by_hand,
            error_fields,
            error_in_transaction,
            transaction,
            savepoint,
            big_value,
            notice,
            types,
            parameters,
            close_midway,
            server_gone,
            console_simple,
            console_extended,
        ],
    );
}
