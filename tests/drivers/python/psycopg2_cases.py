"""psycopg2, by its own libpq: the simple protocol, values put into the text by the driver.

Always true: a connection is in autocommit mode unless the case is about transactions.
"""

import hashlib
import io

import psycopg2
from psycopg2 import errors, extras

import report
from report import BIG, MODE, Impossible, expect, tag


class connect:
    """A connection that is closed at the end of its block; psycopg2's own block is a transaction."""

    def __init__(self, user="u", autocommit=True, **more):
        wanted = dict(host="127.0.0.1", port=report.PORT, dbname=report.DATABASE, user=user, sslmode="disable",
                      gssencmode="disable", connect_timeout=report.CONNECT_MAX)
        self.conn = psycopg2.connect(**{**wanted, **more})
        self.conn.autocommit = autocommit

    def __enter__(self):
        return self.conn

    def __exit__(self, *_):
        self.conn.close()


def run(conn, query, parameters=None):
    with conn.cursor() as cursor:
        cursor.execute(query, parameters)


def value(conn, query, parameters=None):
    with conn.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchone()[0]


def whose(conn, mark):
    found = value(conn, "select %s::text", [mark])
    assert found == mark, f"a foreign answer: {found}, not {mark}"


def connect_tcp():
    with connect() as conn:
        whose(conn, tag("connect_tcp"))


def connect_unix():
    with connect(host=report.SOCKETS) as conn:
        whose(conn, tag("connect_unix"))


def login(user, **more):
    with connect(user, **more) as conn:
        assert value(conn, "select current_user") == user


def auth_md5():
    login("by_md5", password=report.SECRET)


def auth_scram():
    login("by_scram", password=report.SECRET)


def auth_scram_plus():
    login("by_scram", password=report.SECRET, sslmode="require", channel_binding="require")


def auth_wrong():
    for user in ["by_md5", "by_scram"]:
        error = expect(psycopg2.OperationalError, lambda: connect(user, password="wrong"))
        assert "authentication failed" in str(error), error


def tls_require():
    login("by_tls", sslmode="require")
    expect(psycopg2.OperationalError, lambda: connect("by_tls"))


def tls_verify_full():
    login("by_tls", host="localhost", sslmode="verify-full", sslrootcert=report.CA)


def tls_wrong_name():
    wrong = dict(sslmode="verify-full", sslrootcert=report.CA)
    error = expect(psycopg2.OperationalError, lambda: connect("by_tls", **wrong))
    assert "does not match host name" in str(error), error


def tls_certificate():
    login("by_cert", sslmode="require", sslcert=report.CERT, sslkey=report.KEY)
    expect(psycopg2.OperationalError, lambda: connect("by_cert", sslmode="require"))


def no_protocol_level():
    raise Impossible("psycopg2 has the simple protocol only")


unnamed_over_syncs = prepared_shared = prepared_many = prepared_deallocate = prepared_after_error = no_protocol_level
pipeline_error = console_extended = no_protocol_level


def pipeline():
    """Several statements in one Query message, and many clients with those."""
    def one(number):
        with connect() as conn, conn.cursor() as cursor:
            for turn in range(15):
                mark = tag("many", number * 1000 + turn)
                cursor.execute("select 1; select pg_backend_pid(); select %s", [mark])
                assert cursor.fetchone()[0] == mark
                extras.execute_batch(cursor, "select %s", [[mark]] * 30, page_size=10)
                assert cursor.fetchone()[0] == mark

    report.together(20, one)


def cursor():
    with connect(autocommit=False) as conn, conn.cursor(name="pieces") as pieces:
        pieces.itersize = 700
        pieces.execute("select n, %s::text from generate_series(1, 10000) n", [tag("cursor")])
        assert all(row == (n, tag("cursor")) for n, row in enumerate(pieces, 1))


def copy_in():
    with connect() as conn, conn.cursor() as cursor:
        cursor.execute("create table if not exists incoming_psycopg2 (n int, who text); truncate incoming_psycopg2")
        rows = "".join(f"{n}\t{tag('copy_in')}\n" for n in range(20000))
        cursor.copy_expert("copy incoming_psycopg2 from stdin", io.StringIO(rows))
        extras.execute_values(cursor, "insert into incoming_psycopg2 values %s", [(n, tag("copy_in")) for n in range(500)])
        cursor.execute("select count(*), count(distinct n), min(who), max(who) from incoming_psycopg2")
        assert cursor.fetchone() == (20500, 20000, tag("copy_in"), tag("copy_in"))
        cursor.execute("drop table incoming_psycopg2")


def copy_out():
    with connect() as conn, conn.cursor() as cursor:
        text = io.StringIO()
        cursor.copy_expert(f"copy (select n, '{tag('copy_out')}' from generate_series(1, 100000) n) to stdout", text)
        lines = text.getvalue().splitlines()
        assert lines == [f"{n}\t{tag('copy_out')}" for n in range(1, 100001)]
        whose(conn, tag("copy_out"))


def copy_failed():
    with connect() as conn, conn.cursor() as cursor:
        cursor.execute("create table if not exists copied_psycopg2 (n int); truncate copied_psycopg2")
        rows = io.StringIO("1\nnot a number\n" * 100000)
        expect(errors.InvalidTextRepresentation, lambda: cursor.copy_expert("copy copied_psycopg2 from stdin", rows))
        assert value(conn, "select count(*) from copied_psycopg2") == 0
        cursor.execute("drop table copied_psycopg2")


class Broken:
    """A file that breaks in the middle."""

    left = 20

    def read(self, size):
        self.left -= 1
        if self.left:
            return "1\n" * (size // 2)
        raise ValueError("enough")

    write = read


def copy_abandoned():
    with connect() as conn, conn.cursor() as cursor:
        cursor.execute("create table if not exists left_psycopg2 (n int); truncate left_psycopg2")
        expect(errors.QueryCanceled, lambda: cursor.copy_expert("copy left_psycopg2 from stdin", Broken()))
        assert value(conn, "select count(*) from left_psycopg2") == 0
        cursor.execute("drop table left_psycopg2")
        Broken.write = lambda *_: 1 / 0
        expect(ZeroDivisionError, lambda: cursor.copy_expert(
            "copy (select generate_series(1, 10000000)) to stdout", Broken()))
    with connect() as conn:
        whose(conn, tag("copy_abandoned"))


def cancel_timeout():
    with connect() as conn:
        expect(errors.QueryCanceled, lambda: run(conn, "begin; set local statement_timeout = '100ms'; select pg_sleep(30)"))
        run(conn, "rollback")
        whose(conn, tag("cancel_timeout"))


def cancel_by_hand():
    with connect("by_tls", sslmode="require") as conn, connect() as watcher:
        for turn in range(3):
            mark = tag("cancel_by_hand", turn)
            waiting = report.when_running(lambda query: value(watcher, query), mark, conn.cancel)
            error = expect(errors.QueryCanceled, lambda: run(conn, f"select pg_sleep(50) /* {mark} */"))
            assert "user request" in str(error), error
            waiting.join()
            whose(conn, mark)


def error_fields():
    with connect() as conn:
        run(conn, "create table if not exists unique_psycopg2 (n int constraint only_once_psycopg2 unique); truncate unique_psycopg2")
        run(conn, "insert into unique_psycopg2 values (1)")
        said = expect(errors.UniqueViolation, lambda: run(conn, "insert into unique_psycopg2 values (1)")).diag
        assert (said.sqlstate, said.severity, said.severity_nonlocalized) == ("23505", "ERROR", "ERROR")
        assert (said.schema_name, said.table_name) == ("public", "unique_psycopg2")
        assert said.constraint_name == "only_once_psycopg2"
        assert said.message_detail == "Key (n)=(1) already exists.", said.message_detail
        said = expect(errors.SyntaxError, lambda: run(conn, "select 1 frum there")).diag
        assert (said.sqlstate, said.statement_position) == ("42601", "15"), said.statement_position
        raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$"
        said = expect(psycopg2.Error, lambda: run(conn, raised)).diag
        assert (said.sqlstate, said.message_hint, said.message_detail) == ("XX123", "none", "much")
        run(conn, "drop table unique_psycopg2")


def error_in_transaction():
    with connect(autocommit=False) as conn:
        expect(errors.DivisionByZero, lambda: run(conn, "select 1 / 0"))
        expect(errors.InFailedSqlTransaction, lambda: run(conn, "select 1"))
        conn.rollback()
        whose(conn, tag("error_in_transaction"))


def transaction():
    with connect(autocommit=False) as conn:
        run(conn, "create table if not exists kept_psycopg2 (who text); truncate kept_psycopg2")
        conn.commit()
        run(conn, "insert into kept_psycopg2 values (%s)", [tag("lost")])
        conn.rollback()
        conn.set_session(isolation_level="SERIALIZABLE")
        run(conn, "insert into kept_psycopg2 values (%s)", [tag("kept")])
        assert value(conn, "show transaction_isolation") == "serializable"
        conn.commit()
        assert value(conn, "select string_agg(who, ',') from kept_psycopg2") == tag("kept")
        run(conn, "drop table kept_psycopg2")
        conn.commit()
    # Two phases, which need not be of the same server.
    with connect(autocommit=False) as conn:
        conn.reset()
        xid = conn.xid(0, tag("two_phases"), "")
        conn.tpc_begin(xid)
        assert value(conn, "select 1") == 1
        conn.tpc_prepare()
        conn.tpc_rollback()
        whose(conn, tag("transaction"))


def savepoint():
    with connect(autocommit=False) as conn:
        pid = value(conn, "select pg_backend_pid()")
        for turn in range(3):
            run(conn, "savepoint inner_one")
            expect(errors.DivisionByZero, lambda: run(conn, "select 1 / 0"))
            run(conn, "rollback to inner_one")
            whose(conn, tag("savepoint", turn))
        assert value(conn, "select pg_backend_pid()") == pid


def big_value():
    with connect() as conn:
        # As text in the query it is twice as large.
        big = bytes(range(256)) * (BIG // 512)
        assert value(conn, "select md5(%s::bytea)", [big]) == hashlib.md5(big).hexdigest()
        assert bytes(value(conn, "select %s::bytea", [big])) == big
        whose(conn, tag("big_value"))


def notice():
    with connect() as conn:
        run(conn, f"do $$ begin raise notice '{tag('notice')}'; raise warning 'second'; end $$")
        assert conn.notices == [f"NOTICE:  {tag('notice')}\n", "WARNING:  second\n"], conn.notices


def types():
    extras.register_uuid()
    with connect() as conn:
        for name, wanted in report.VALUES.items():
            given = extras.Json(wanted) if name == "jsonb" else wanted
            found = value(conn, f"select %s::{name}", [given])
            found = bytes(found) if name == "bytea" else found
            assert found == wanted, (name, found)


def parameters():
    """What a client sets at login and by SET is its own."""
    with connect(application_name="mine") as conn, connect(application_name="other", autocommit=False) as other:
        run(conn, "set timezone = 'Asia/Tokyo'")
        conn.set_client_encoding("LATIN1")
        for _ in range(5):
            # The second keeps a server busy, so that the first does not always find the same one.
            assert value(other, "show application_name") == "other"
            assert value(conn, "show application_name") == "mine"
            assert value(conn, "show timezone") == "Asia/Tokyo"
            assert value(conn, "select 'é'") == "é"
            assert value(other, "show timezone") != "Asia/Tokyo"
            assert value(other, "show client_encoding") == "UTF8"
            other.rollback()
        assert conn.get_parameter_status("TimeZone") == "Asia/Tokyo"


def close_midway():
    with connect() as conn:
        run(conn, "create table if not exists locked_psycopg2 (n int); truncate locked_psycopg2")
        run(conn, "insert into locked_psycopg2 values (1)")
        gone = psycopg2.connect(conn.dsn, async_=True)
        extras.wait_select(gone)
        doing = gone.cursor()
        doing.execute("begin; update locked_psycopg2 set n = 2")
        extras.wait_select(gone)
        # PostgreSQL itself lets the query of a vanished client run on.
        mark = tag("close_midway")
        doing.execute(f"select pg_sleep({3 if MODE == 'direct' else 50}) /* {mark} */")
        report.await_running(lambda query: value(conn, query), mark)
        gone.close()
        run(conn, f"begin; set local lock_timeout = '{report.LOCK_MAX}'")
        assert value(conn, "update locked_psycopg2 set n = n + 10 returning n") == 11
        run(conn, "commit; drop table locked_psycopg2")


def server_gone():
    """The server process is ended in a transaction: the driver must notice, and another connection works."""
    with connect(autocommit=False) as conn, connect() as other:
        pid = value(conn, "select pg_backend_pid()")
        run(other, "select pg_terminate_backend(%s)", [pid])
        expect(psycopg2.OperationalError, lambda: run(conn, "select pg_sleep(10)"))
        assert conn.closed
        whose(other, tag("server_gone"))


def console_simple():
    report.through_pooler()
    with connect("stats", dbname="pgbouncer") as conn, conn.cursor(cursor_factory=extras.RealDictCursor) as cursor:
        cursor.execute("show pools")
        assert any(row["database"] == "pgbouncer" and row["cl_active"] for row in cursor.fetchall())
        assert value(conn, "show version").startswith("PgBouncer ")


report.run(psycopg2.__version__.split()[0], globals())
