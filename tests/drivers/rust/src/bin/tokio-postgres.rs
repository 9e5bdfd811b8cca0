//! tokio-postgres, with rustls for its TLS.
//!
//! Always true: a query is prepared with a name, described, and run in the next round trip, as the driver does on its own.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::{join_all, poll_fn};
use futures_util::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use md5::{Digest, Md5};
use rust_drivers::{
    BIG, Failure, Given, LOCK_MAX, Outcome, cases, check, impossible, is_running, look_again, same, slept, tag,
    together, whole,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::task::JoinHandle;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{AsyncMessage, Client, Error, IsolationLevel, NoTls, SimpleQueryMessage, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

static GIVEN: LazyLock<Given> = LazyLock::new(Given::read);

/// A connection: the client, and the task that carries its bytes.
struct Conn {
    client: Client,
    task: JoinHandle<Result<(), Error>>,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Deref for Conn {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

fn words(user: &str, more: &str) -> String {
    let Given { port, database, .. } = &*GIVEN;
    let host = if more.contains("host=") { "" } else { "host=127.0.0.1" };
    let database = if more.contains("dbname=") { String::new() } else { format!("dbname={database}") };
    let tls = if more.contains("sslmode=") { "" } else { "sslmode=disable" };
    format!("{host} port={port} {database} user={user} connect_timeout=30 {tls} {more}")
}

async fn dial<T>(user: &str, more: &str, tls: T) -> Result<Conn, Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: TlsConnect<Socket>,
{
    let (client, mut connection) = tokio_postgres::connect(&words(user, more), tls).await?;
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = notices.clone();
    let task = tokio::spawn(async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notice(said))) => {
                    heard.lock().expect("nobody panics here").push(format!("{} {}", said.severity(), said.message()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    });
    Ok(Conn { client, task, notices })
}

async fn connect(user: &str, more: &str) -> Result<Conn, Error> {
    dial(user, more, NoTls).await
}

async fn secured(user: &str, more: &str, trust: Trust, certificate: bool) -> Result<Conn, Error> {
    dial(user, &format!("sslmode=require {more}"), tls(trust, certificate)).await
}

async fn value<V: FromSqlOwned>(client: &Client, query: &str, values: &[&(dyn ToSql + Sync)]) -> Result<V, Error> {
    client.query_one(query, values).await?.try_get(0)
}

async fn ask(client: &Client, statement: &Statement, given: &(dyn ToSql + Sync)) -> Result<String, Error> {
    client.query_one(statement, &[given]).await?.try_get(0)
}

async fn whose(client: &Client, mark: &str) -> Outcome {
    same("a foreign answer", value::<String>(client, "select $1::text", &[&mark]).await?, mark);
    Ok(())
}

#[track_caller]
fn said(error: &Error) -> &DbError {
    error.as_db_error().unwrap_or_else(|| panic!("no word of the server but {}", whole(error)))
}

async fn fails(client: &Client, code: SqlState, query: &str) -> DbError {
    let error = client.batch_execute(query).await.expect_err(query);
    same(format_args!("code of {query}"), said(&error).code(), &code);
    said(&error).clone()
}

async fn await_running(client: &Client, mark: &str) -> Outcome {
    let (question, begun) = (is_running(mark), Instant::now());
    while value::<i64>(client, &question, &[]).await? == 0 {
        look_again(mark, begun).await;
    }
    Ok(())
}

async fn login(conn: Conn, user: &str) -> Outcome {
    same("user", value::<String>(&conn, "select current_user::text", &[]).await?, user);
    Ok(())
}

async fn connect_tcp() -> Outcome {
    whose(&*connect("u", "").await?, &tag("connect_tcp", 0)).await
}

async fn connect_unix() -> Outcome {
    whose(&*connect("u", &format!("host={}", GIVEN.sockets)).await?, &tag("connect_unix", 0)).await
}

fn password() -> String {
    format!("password='{}'", GIVEN.secret)
}

async fn auth_md5() -> Outcome {
    login(connect("by_md5", &password()).await?, "by_md5").await
}

async fn auth_scram() -> Outcome {
    login(connect("by_scram", &password()).await?, "by_scram").await
}

async fn auth_scram_plus() -> Outcome {
    let more = format!("{} channel_binding=require", password());
    login(secured("by_scram", &more, Trust::Anybody, false).await?, "by_scram").await
}

async fn auth_wrong() -> Outcome {
    for user in ["by_md5", "by_scram"] {
        let error = connect(user, "password=wrong").await.map(|_| ()).expect_err("was let in");
        check(said(&error).message().contains("authentication failed"), &error);
        same("code", said(&error).code().code(), GIVEN.auth_wrong_code());
    }
    Ok(())
}

async fn tls_require() -> Outcome {
    login(secured("by_tls", "", Trust::Anybody, false).await?, "by_tls").await?;
    check(connect("by_tls", "").await.is_err(), "was let in without TLS");
    Ok(())
}

async fn tls_verify_full() -> Outcome {
    login(secured("by_tls", "host=localhost", Trust::Authority, false).await?, "by_tls").await
}

async fn tls_wrong_name() -> Outcome {
    let error =
        secured("by_tls", "", Trust::Authority, false).await.map(|_| ()).expect_err("another name was accepted");
    check(whole(&error).contains("certificate"), whole(&error));
    Ok(())
}

async fn tls_certificate() -> Outcome {
    login(secured("by_cert", "", Trust::Anybody, true).await?, "by_cert").await?;
    check(secured("by_cert", "", Trust::Anybody, false).await.is_err(), "was let in without a certificate");
    Ok(())
}

async fn prepared_shared() -> Outcome {
    together(20, async |number| {
        let mut conn = connect("u", "").await?;
        let shared = conn.prepare("select $1::text, $2::int").await?;
        let own = conn.prepare(&format!("select $1::text || '-own-{number}'")).await?;
        for turn in 0..15 {
            let mark = tag("shared", number * 1000 + turn);
            let tx = conn.transaction().await?;
            let row = tx.query_one(&shared, &[&mark, &(turn as i32)]).await?;
            same(
                "a foreign answer",
                (row.try_get::<_, String>(0)?, row.try_get::<_, i32>(1)?),
                (mark.clone(), turn as i32),
            );
            let found: String = tx.query_one(&own, &[&mark]).await?.try_get(0)?;
            same("a foreign answer", found.clone(), format!("{mark}-own-{number}"));
            tx.commit().await?;
            let again: String = conn.query_one(&own, &[&mark]).await?.try_get(0)?;
            same("a foreign answer", again, found);
        }
        Ok(())
    })
    .await
}

async fn prepared_many() -> Outcome {
    let conn = connect("u", "").await?;
    let mut all = Vec::new();
    for number in 0..60 {
        all.push(conn.prepare(&format!("select $1::text || '-{number}'")).await?);
    }
    for _ in 0..3 {
        for (number, statement) in all.iter().enumerate() {
            let mark = tag("many", number);
            let found: String = conn.query_one(statement, &[&mark]).await?.try_get(0)?;
            same("a foreign answer", found, format!("{mark}-{number}"));
        }
    }
    Ok(())
}

/// A statement is closed with the next request after it was dropped.
async fn prepared_deallocate() -> Outcome {
    let conn = connect("u", "").await?;
    for number in 0..40 {
        let found: i32 = value(&conn, &format!("select $1::int + {number}"), &[&number]).await?;
        same("answer", found, 2 * number);
    }
    let kept = conn.prepare("select 7").await?;
    conn.batch_execute("discard all").await?;
    let error = conn.query(&kept, &[]).await.map(|_| ()).expect_err("a statement outlived DISCARD ALL");
    same("code", said(&error).code(), &SqlState::INVALID_SQL_STATEMENT_NAME);
    same("answer", value::<i32>(&conn, "select $1::int", &[&7]).await?, 7);
    Ok(())
}

async fn prepared_after_error() -> Outcome {
    let mut conn = connect("u", "").await?;
    let error = conn.prepare("select $1::int from not_there").await.map(|_| ()).expect_err("a table that is not there");
    same("code", said(&error).code(), &SqlState::UNDEFINED_TABLE);
    let divide = conn.prepare("select 1 / $1::int").await?;
    let error = conn.query_one(&divide, &[&0]).await.map(|_| ()).expect_err("a division by zero");
    same("code", said(&error).code(), &SqlState::DIVISION_BY_ZERO);
    same("answer", conn.query_one(&divide, &[&1]).await?.try_get::<_, i32>(0)?, 1);
    let tx = conn.transaction().await?;
    let error = tx.query_one(&divide, &[&0]).await.map(|_| ()).expect_err("a division by zero");
    same("code", said(&error).code(), &SqlState::DIVISION_BY_ZERO);
    tx.rollback().await?;
    same("answer", conn.query_one(&divide, &[&-1]).await?.try_get::<_, i32>(0)?, -1);
    Ok(())
}

async fn unnamed_over_syncs() -> Outcome {
    impossible("tokio-postgres prepares with a name, or sends Parse and Bind together")
}

/// Requests are sent at once, without waiting for earlier answers.
async fn pipeline() -> Outcome {
    let conn = connect("u", "").await?;
    let statement = conn.prepare("select $1::text").await?;
    for _ in 0..5 {
        let marks: Vec<_> = (0..60).map(|number| tag("pipeline", number)).collect();
        let found = join_all(marks.iter().map(|mark| ask(&conn, &statement, mark))).await;
        let found: Vec<String> = found.into_iter().collect::<Result<_, Error>>()?;
        same("foreign answers", found, marks);
    }
    Ok(())
}

async fn pipeline_error() -> Outcome {
    let conn = connect("u", "").await?;
    let (good, bad) = (conn.prepare("select $1::text").await?, conn.prepare("select (1 / $1::int)::text").await?);
    let marks: Vec<_> = (0..30).map(|number| tag("pipeline_error", number)).collect();
    let one = |number: usize| match number % 3 {
        1 => ask(&conn, &bad, &0),
        _ => ask(&conn, &good, &marks[number]),
    };
    for (number, found) in join_all((0..30).map(one)).await.into_iter().enumerate() {
        match found {
            Ok(found) => same("a foreign answer", &found, &marks[number]),
            Err(error) => same(format_args!("code of {number}"), said(&error).code().code(), "22012"),
        }
    }
    whose(&conn, &tag("pipeline_error", 0)).await
}

/// A portal that is read in parts.
async fn cursor() -> Outcome {
    let mut conn = connect("u", "").await?;
    let mark = tag("cursor", 0);
    let tx = conn.transaction().await?;
    let portal = tx.bind("select n, $1::text from generate_series(1, 10000) n", &[&mark]).await?;
    let mut count = 0;
    loop {
        let rows = tx.query_portal(&portal, 700).await?;
        for row in &rows {
            count += 1;
            same("a foreign row", (row.try_get::<_, i32>(0)?, row.try_get::<_, String>(1)?), (count, mark.clone()));
        }
        if rows.is_empty() {
            break;
        }
    }
    same("rows", count, 10000);
    tx.commit().await?;
    Ok(())
}

async fn copy_in() -> Outcome {
    let conn = connect("u", "").await?;
    conn.batch_execute("create table if not exists incoming_tp (n int, who text); truncate incoming_tp").await?;
    let mark = tag("copy_in", 0);
    let sink = conn.copy_in("copy incoming_tp from stdin").await?;
    pin_mut!(sink);
    for number in 0..20000 {
        sink.feed(Bytes::from(format!("{number}\t{mark}\n"))).await?;
    }
    same("rows", sink.finish().await?, 20000);
    let found: i64 = value(&conn, "select count(distinct n) from incoming_tp where who = $1", &[&mark]).await?;
    same("rows", found, 20000);
    conn.batch_execute("drop table incoming_tp").await?;
    Ok(())
}

async fn copy_out() -> Outcome {
    let conn = connect("u", "").await?;
    let mark = tag("copy_out", 0);
    let query = format!("copy (select n, '{mark}' from generate_series(1, 100000) n) to stdout");
    let pieces: Vec<Bytes> = conn.copy_out(&query).await?.try_collect().await?;
    let text = String::from_utf8(pieces.concat())?;
    same("rows", text.lines().count(), 100000);
    for (at, line) in text.lines().enumerate() {
        same("a foreign row", line, format!("{}\t{mark}", at + 1));
    }
    whose(&conn, &mark).await
}

async fn copy_failed() -> Outcome {
    let conn = connect("u", "").await?;
    conn.batch_execute("create table if not exists copied_tp (n int); truncate copied_tp").await?;
    let sink = conn.copy_in("copy copied_tp from stdin").await?;
    pin_mut!(sink);
    let rows = Bytes::from("1\nnot a number\n".repeat(1000));
    let mut failed = None;
    for _ in 0..100 {
        // The error may arrive while rows are still sent, or at the end.
        if let Err(error) = sink.send(rows.clone()).await {
            failed = Some(error);
            break;
        }
    }
    let error = match failed {
        Some(error) => error,
        None => sink.finish().await.expect_err("a copy of nonsense"),
    };
    check(error.as_db_error().is_none_or(|said| said.code().code() == "22P02"), whole(&error));
    same("rows", value::<i64>(&conn, "select count(*) from copied_tp", &[]).await?, 0);
    conn.batch_execute("drop table copied_tp").await?;
    Ok(())
}

async fn copy_abandoned() -> Outcome {
    let conn = connect("u", "").await?;
    conn.batch_execute("create table if not exists left_tp (n int); truncate left_tp").await?;
    {
        let sink = conn.copy_in("copy left_tp from stdin").await?;
        pin_mut!(sink);
        sink.send(Bytes::from("1\n".repeat(10000))).await?;
    }
    same("rows", value::<i64>(&conn, "select count(*) from left_tp", &[]).await?, 0);
    conn.batch_execute("drop table left_tp").await?;
    // The rows are not read to the end: the connection is dropped.
    let other = connect("u", "").await?;
    let rows = other.copy_out("copy (select generate_series(1, 10000000)) to stdout").await?;
    pin_mut!(rows);
    check(rows.next().await.is_some_and(|row| row.is_ok()), "nothing came");
    other.task.abort();
    whose(&conn, &tag("copy_abandoned", 0)).await
}

async fn cancel_timeout() -> Outcome {
    let conn = connect("u", "").await?;
    fails(&conn, SqlState::QUERY_CANCELED, "begin; set local statement_timeout = '100ms'; select pg_sleep(50)").await;
    conn.batch_execute("rollback").await?;
    whose(&conn, &tag("cancel_timeout", 0)).await?;
    // Abandoning an answer does not cancel the query; the next one waits for its end.
    let given_up = tokio::time::timeout(Duration::from_millis(100), conn.batch_execute("select pg_sleep(1)")).await;
    check(given_up.is_err(), "it was answered too early");
    whose(&conn, &tag("cancel_timeout", 1)).await
}

async fn cancel_by_hand() -> Outcome {
    let (conn, watcher) = (secured("by_tls", "", Trust::Anybody, false).await?, connect("u", "").await?);
    for turn in 0..3 {
        let mark = tag("cancel_by_hand", turn);
        let token = conn.cancel_token();
        let query = slept(&mark);
        let cancel = async {
            await_running(&watcher, &mark).await?;
            token.cancel_query(tls(Trust::Anybody, false)).await?;
            Ok::<_, Failure>(())
        };
        let (failed, cancelled) = tokio::join!(fails(&conn, SqlState::QUERY_CANCELED, &query), cancel);
        cancelled?;
        same("words", failed.message(), "canceling statement due to user request");
        whose(&conn, &mark).await?;
    }
    Ok(())
}

async fn error_fields() -> Outcome {
    let conn = connect("u", "").await?;
    conn.batch_execute("create table if not exists unique_tp (n int constraint only_once_tp unique)").await?;
    conn.batch_execute("truncate unique_tp; insert into unique_tp values (1)").await?;
    let said = fails(&conn, SqlState::UNIQUE_VIOLATION, "insert into unique_tp values (1)").await;
    let fields = [Some(said.severity()), said.schema(), said.table(), said.constraint(), said.detail()];
    let wanted = ["ERROR", "public", "unique_tp", "only_once_tp", "Key (n)=(1) already exists."];
    same("fields", fields, wanted.map(Some));
    let said = fails(&conn, SqlState::SYNTAX_ERROR, "select 1 frum there").await;
    same("position", said.position(), Some(&ErrorPosition::Original(15)));
    let raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$";
    let said = fails(&conn, SqlState::from_code("XX123"), raised).await;
    same("fields", [Some(said.message()), said.hint(), said.detail()], ["own", "none", "much"].map(Some));
    conn.batch_execute("drop table unique_tp").await?;
    Ok(())
}

async fn error_in_transaction() -> Outcome {
    let mut conn = connect("u", "").await?;
    let tx = conn.transaction().await?;
    fails(tx.client(), SqlState::DIVISION_BY_ZERO, "select 1 / 0").await;
    fails(tx.client(), SqlState::IN_FAILED_SQL_TRANSACTION, "select 1").await;
    tx.rollback().await?;
    whose(&conn, &tag("error_in_transaction", 0)).await
}

async fn transaction() -> Outcome {
    let mut conn = connect("u", "").await?;
    conn.batch_execute("create table if not exists kept_tp (who text); truncate kept_tp").await?;
    let tx = conn.transaction().await?;
    tx.execute("insert into kept_tp values ($1)", &[&tag("lost", 0)]).await?;
    tx.rollback().await?;
    let tx = conn.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
    tx.execute("insert into kept_tp values ($1)", &[&tag("kept", 0)]).await?;
    same("level", value::<String>(tx.client(), "show transaction_isolation", &[]).await?, "serializable");
    tx.commit().await?;
    let who: String = value(&conn, "select string_agg(who, ',') from kept_tp", &[]).await?;
    same("who", who, tag("kept", 0));
    conn.batch_execute("drop table kept_tp").await?;
    Ok(())
}

async fn savepoint() -> Outcome {
    let mut conn = connect("u", "").await?;
    let mut tx = conn.transaction().await?;
    let pid: i32 = value(tx.client(), "select pg_backend_pid()", &[]).await?;
    for turn in 0..3 {
        let inner = tx.transaction().await?;
        fails(inner.client(), SqlState::DIVISION_BY_ZERO, "select 1 / 0").await;
        inner.rollback().await?;
        let inner = tx.savepoint("inner_one").await?;
        whose(inner.client(), &tag("savepoint", turn)).await?;
        inner.commit().await?;
    }
    same("server", value::<i32>(tx.client(), "select pg_backend_pid()", &[]).await?, pid);
    tx.commit().await?;
    Ok(())
}

async fn big_value() -> Outcome {
    let conn = connect("u", "").await?;
    let big: Vec<u8> = (0..BIG).map(|at| (at * 7) as u8).collect();
    let sum: String = Md5::digest(&big).iter().map(|byte| format!("{byte:02x}")).collect();
    same("sum", value::<String>(&conn, "select md5($1::bytea)", &[&big]).await?, sum);
    check(value::<Vec<u8>>(&conn, "select $1::bytea", &[&big]).await? == big, "other bytes came back");
    whose(&conn, &tag("big_value", 0)).await
}

async fn notice() -> Outcome {
    let conn = connect("u", "").await?;
    let mark = tag("notice", 0);
    conn.batch_execute(&format!("do $$ begin raise notice '{mark}'; raise warning 'second'; end $$")).await?;
    let wanted = vec![format!("NOTICE {mark}"), "WARNING second".to_owned()];
    same("notices", &*conn.notices.lock().expect("nobody panics here"), &wanted);
    Ok(())
}

async fn types() -> Outcome {
    async fn there_and_back<V>(conn: &Client, name: &str, given: V) -> Outcome
    where
        V: ToSql + FromSqlOwned + Sync + PartialEq + std::fmt::Debug,
    {
        same(name, value::<V>(conn, &format!("select $1::{name}"), &[&given]).await?, given);
        Ok(())
    }
    let conn = connect("u", "").await?;
    there_and_back(&conn, "int4[]", vec![Some(1), Some(-2), None, Some(3)]).await?;
    let texts = ["a", "quoted \" and \\", "", &tag("types", 0)].map(str::to_owned);
    there_and_back(&conn, "text[]", texts.to_vec()).await?;
    there_and_back(&conn, "jsonb", serde_json::json!({"a": [1, null, {"b": "c"}]})).await?;
    let when = SystemTime::UNIX_EPOCH + Duration::from_micros(1_772_323_199_999_999);
    there_and_back(&conn, "timestamptz", when).await?;
    there_and_back(&conn, "bytea", (0..=255).collect::<Vec<u8>>()).await?;
    there_and_back(&conn, "uuid", Uuid::from_u128(0x1234)).await?;
    there_and_back(&conn, "float8", 1e-300).await?;
    there_and_back(&conn, "bool", true).await?;
    there_and_back(&conn, "text", None::<String>).await?;
    // A type that the driver has to look up.
    conn.batch_execute("drop type if exists mood_tp; create type mood_tp as enum ('well', 'ill')").await?;
    let statement = conn.prepare("select 'well'::mood_tp").await?;
    same("type", statement.columns()[0].type_().name(), "mood_tp");
    conn.batch_execute("drop type mood_tp").await?;
    Ok(())
}

async fn parameters() -> Outcome {
    let (conn, mut other) =
        (connect("u", "application_name=mine").await?, connect("u", "application_name=other").await?);
    conn.batch_execute("set timezone = 'Asia/Tokyo'").await?;
    for _ in 0..5 {
        // The second connection keeps a server busy, so that the first does not always get the same one.
        let tx = other.transaction().await?;
        same("other's name", value::<String>(tx.client(), "show application_name", &[]).await?, "other");
        same("name", value::<String>(&conn, "show application_name", &[]).await?, "mine");
        same("zone", value::<String>(&conn, "show timezone", &[]).await?, "Asia/Tokyo");
        check(value::<String>(tx.client(), "show timezone", &[]).await? != "Asia/Tokyo", "a foreign zone");
        tx.commit().await?;
    }
    Ok(())
}

async fn close_midway() -> Outcome {
    let conn = connect("u", "").await?;
    let table = "create table if not exists locked_tp (n int); truncate locked_tp; insert into locked_tp values (1)";
    conn.batch_execute(table).await?;
    let gone = connect("u", "").await?;
    gone.batch_execute("begin; update locked_tp set n = 2").await?;
    let mark = tag("close_midway", 0);
    let query = GIVEN.slept_midway(&mark);
    let vanish = async {
        await_running(&conn, &mark).await?;
        gone.task.abort();
        Ok::<_, Failure>(())
    };
    let (asleep, vanished) = tokio::join!(gone.batch_execute(&query), vanish);
    vanished?;
    check(asleep.is_err(), "the query of a closed connection ended well");
    conn.batch_execute(&format!("begin; set local lock_timeout = '{LOCK_MAX}'")).await?;
    same("row", value::<i32>(&conn, "update locked_tp set n = n + 10 returning n", &[]).await?, 11);
    conn.batch_execute("commit; drop table locked_tp").await?;
    Ok(())
}

async fn server_gone() -> Outcome {
    let (mut conn, other) = (connect("u", "").await?, connect("u", "").await?);
    let tx = conn.transaction().await?;
    let pid: i32 = value(tx.client(), "select pg_backend_pid()", &[]).await?;
    value::<bool>(&other, "select pg_terminate_backend($1)", &[&pid]).await?;
    check(tx.batch_execute("select pg_sleep(10)").await.is_err(), "the end was not noticed");
    drop(tx);
    check(conn.batch_execute("select 1").await.is_err() && conn.is_closed(), "the connection is still used");
    whose(&other, &tag("server_gone", 0)).await
}

async fn console_simple() -> Outcome {
    GIVEN.through_pooler()?;
    let conn = connect("stats", "dbname=pgbouncer").await?;
    let pools = conn.simple_query("show pools").await?;
    let is_own = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get("database") == Some("pgbouncer"));
    check(pools.iter().any(is_own), "the console's own pool is not shown");
    Ok(())
}

async fn console_extended() -> Outcome {
    GIVEN.through_pooler()?;
    let conn = connect("stats", "dbname=pgbouncer").await?;
    let pools = conn.query("show pools", &[]).await?;
    check(pools.iter().any(|row| row.get::<_, &str>("database") == "pgbouncer"), "the console's own pool is not shown");
    let version: String = value(&conn, "show version", &[]).await?;
    check(version.starts_with("PgBouncer "), version);
    Ok(())
}

/// Which certificates are accepted.
#[derive(Clone, Copy)]
enum Trust {
    Anybody,
    Authority,
}

fn tls(trust: Trust, certificate: bool) -> MakeRustlsConnect {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has them");
    let builder = match trust {
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Credulous)),
        Trust::Authority => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(GIVEN.ca.as_ref()));
            builder.with_root_certificates(roots)
        }
    };
    let config = match certificate {
        false => builder.with_no_client_auth(),
        true => {
            let key = PrivateKeyDer::from_pem_file(&GIVEN.key).expect("the key can be read");
            builder.with_client_auth_cert(certificates(GIVEN.cert.as_ref()), key).expect("the two belong together")
        }
    };
    MakeRustlsConnect::new(config)
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    let all = CertificateDer::pem_file_iter(path).expect("the file can be read");
    all.collect::<Result<_, _>>().expect("it has certificates only")
}

/// Accepts any certificate, as `sslmode=require` of libpq does.
#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn main() {
    rust_drivers::run(
        "tokio-postgres",
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
