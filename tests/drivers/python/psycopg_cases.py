"""psycopg 3, by its own libpq.

Always true: a connection is in autocommit mode unless the case is about transactions.
"""

import contextlib
import hashlib

import psycopg
from psycopg import errors, pq, sql

import report
from report import BIG, MODE, expect, tag


def connect(user="u", **more):
    wanted = dict(host="127.0.0.1", port=report.PORT, dbname=report.DATABASE, user=user, sslmode="disable",
                  gssencmode="disable", connect_timeout=report.CONNECT_MAX, autocommit=True)
    return psycopg.connect(**{**wanted, **more})


def value(conn, query, parameters=None, **more):
    return conn.execute(query, parameters, **more).fetchone()[0]


def whose(conn, mark):
    found = value(conn, "select %s::text", [mark])
    assert found == mark, f"a foreign answer: {found}, not {mark}"


def connect_tcp():
    for version in ["3.0", "3.2"]:
        with connect(max_protocol_version=version) as conn:
            whose(conn, tag("connect_tcp"))


def connect_unix():
    with connect(host=report.SOCKETS) as conn:
        whose(conn, tag("connect_unix"))


def auth_md5():
    with connect("by_md5", password=report.SECRET) as conn:
        assert value(conn, "select current_user") == "by_md5"


def auth_scram():
    with connect("by_scram", password=report.SECRET) as conn:
        assert value(conn, "select current_user") == "by_scram"


def auth_scram_plus():
    bound = dict(password=report.SECRET, sslmode="require", channel_binding="require")
    with connect("by_scram", **bound) as conn:
        assert value(conn, "select current_user") == "by_scram"


def auth_wrong():
    for user in ["by_md5", "by_scram"]:
        error = expect(psycopg.OperationalError, lambda: connect(user, password="wrong"))
        assert "authentication failed" in str(error), error


def tls_require():
    with connect("by_tls", sslmode="require") as conn:
        assert conn.pgconn.ssl_in_use
        whose(conn, tag("tls_require"))
    expect(psycopg.OperationalError, lambda: connect("by_tls", sslmode="disable"))


def tls_verify_full():
    with connect("by_tls", host="localhost", sslmode="verify-full", sslrootcert=report.CA) as conn:
        whose(conn, tag("tls_verify_full"))


def tls_wrong_name():
    wrong = dict(sslmode="verify-full", sslrootcert=report.CA)
    error = expect(psycopg.OperationalError, lambda: connect("by_tls", **wrong))
    assert "does not match host name" in str(error), error


def tls_certificate():
    shown = dict(sslmode="require", sslcert=report.CERT, sslkey=report.KEY)
    with connect("by_cert", **shown) as conn:
        assert value(conn, "select current_user") == "by_cert"
    expect(psycopg.OperationalError, lambda: connect("by_cert", sslmode="require"))


def prepared_shared():
    """Twenty clients prepare the same text, and one of their own, and run both in many transactions."""
    def one(number):
        with connect(prepare_threshold=0, autocommit=False) as conn:
            for turn in range(15):
                mark = tag("shared", number * 1000 + turn)
                with conn.transaction():
                    assert conn.execute("select %s::text, %s::int", [mark, turn]).fetchone() == (mark, turn)
                    own = conn.execute(f"select %s::text || '-own-{number}'", [mark]).fetchone()[0]
                    assert own == f"{mark}-own-{number}", own

    report.together(20, one)


def prepared_many():
    """More of them than a server may keep, in turns."""
    with connect(prepare_threshold=0) as conn:
        conn.prepared_max = None
        for turn in range(3):
            for number in range(60):
                mark = tag("many", number)
                assert value(conn, f"select %s::text || '-{number}'", [mark]) == f"{mark}-{number}"


def prepared_deallocate():
    with connect(prepare_threshold=0) as conn:
        # The driver closes the oldest when it keeps more than these.
        conn.prepared_max = 5
        for number in range(40):
            assert value(conn, f"select %s::int + {number}", [number]) == 2 * number
    # By hand: the same name with another text after a close.
    with connect() as conn:
        for text in [b"select 1::text", b"select 2::text"]:
            assert conn.pgconn.prepare(b"named", text).status == pq.ExecStatus.COMMAND_OK
            answer = conn.pgconn.exec_prepared(b"named", [])
            assert answer.get_value(0, 0) == text[7:8], answer.get_value(0, 0)
            assert conn.pgconn.close_prepared(b"named").status == pq.ExecStatus.COMMAND_OK


def prepared_after_error():
    with connect(prepare_threshold=0) as conn:
        expect(errors.UndefinedTable, lambda: conn.execute("select %s::int from not_there", [1], prepare=True))
        expect(errors.DivisionByZero, lambda: conn.execute("select 1 / %s::int", [0], prepare=True))
        assert value(conn, "select 1 / %s::int", [1], prepare=True) == 1
        try:
            with conn.transaction():
                conn.execute("select 2 / %s::int", [0], prepare=True)
        except errors.DivisionByZero:
            pass
        assert value(conn, "select 2 / %s::int", [1], prepare=True) == 2


def unnamed_over_syncs():
    """By hand: this driver always sends both together."""
    with connect() as conn:
        for number in range(3):
            conn.pgconn.prepare(b"", f"select '{tag('unnamed', number)}'".encode())
            assert conn.pgconn.exec_prepared(b"", []).get_value(0, 0).decode() == tag("unnamed", number)


def pipeline():
    with connect() as conn:
        for turn in range(5):
            with conn.pipeline():
                cursors = [conn.execute("select %s::text", [tag("pipeline", n)]) for n in range(60)]
            assert [cursor.fetchone()[0] for cursor in cursors] == [tag("pipeline", n) for n in range(60)]


def pipeline_error():
    with connect() as conn:
        with conn.pipeline() as batch:
            before = conn.execute("select %s::text", [tag("before")])
            batch.sync()
            after = []

            def fails():
                conn.execute("select 1 / %s::int", [0])
                # What has come already is told with the next request, or the one after it.
                after.append(conn.execute("select %s::text", [tag("after")]))
                batch.sync()
            expect(errors.DivisionByZero, fails)
            for skipped in after:
                expect(psycopg.Error, skipped.fetchone)
            with contextlib.suppress(psycopg.Error):
                batch.sync()
            fresh = conn.execute("select %s::text", [tag("fresh")])
            batch.sync()
            assert before.fetchone()[0] == tag("before") and fresh.fetchone()[0] == tag("fresh")
        whose(conn, tag("pipeline_error"))


def cursor():
    """A portal that is read piece by piece."""
    with connect(autocommit=False) as conn, conn.cursor(name="pieces") as pieces:
        pieces.itersize = 700
        pieces.execute("select n, %s::text from generate_series(1, 10000) n", [tag("cursor")])
        assert all(row == (n, tag("cursor")) for n, row in enumerate(pieces, 1))
    with connect() as conn:
        one_by_one = conn.cursor().stream("select n from generate_series(1, 3000) n")
        assert [n for (n,) in one_by_one] == list(range(1, 3001))


def copy_in():
    with connect(autocommit=False) as conn:
        conn.execute("create temp table incoming (n int, who text) on commit drop")
        with conn.cursor().copy("copy incoming from stdin") as copy:
            for n in range(20000):
                copy.write_row((n, tag("copy_in")))
        found = conn.execute("select count(*), count(distinct n), min(who), max(who) from incoming").fetchone()
        assert found == (20000, 20000, tag("copy_in"), tag("copy_in")), found


def copy_out():
    with connect() as conn:
        query = sql.SQL("copy (select n, {} from generate_series(1, 100000) n) to stdout").format(tag("copy_out"))
        with conn.cursor().copy(query) as copy:
            copy.set_types(["int4", "text"])
            count = 0
            for row in copy.rows():
                count += 1
                assert row == (count, tag("copy_out")), row
        assert count == 100000
        whose(conn, tag("copy_out"))


def copy_failed():
    with connect() as conn:
        conn.execute("create table if not exists copied_psycopg (n int); truncate copied_psycopg")

        def write():
            with conn.cursor().copy("copy copied_psycopg from stdin") as copy:
                for _ in range(5000):
                    copy.write("1\nnot a number\n")
        expect(errors.InvalidTextRepresentation, write)
        assert value(conn, "select count(*) from copied_psycopg") == 0
        conn.execute("drop table copied_psycopg")


def copy_abandoned():
    with connect() as conn:
        conn.execute("create table if not exists left_psycopg (n int); truncate left_psycopg")

        def write():
            with conn.cursor().copy("copy left_psycopg from stdin") as copy:
                copy.write("1\n")
                raise ValueError("enough")
        expect(ValueError, write)
        assert value(conn, "select count(*) from left_psycopg") == 0
        conn.execute("drop table left_psycopg")
        # Leaving a copy out by an error cancels it.
        def read():
            with conn.cursor().copy("copy (select generate_series(1, 10000000)) to stdout") as copy:
                copy.read()
                raise ValueError("enough")
        expect(ValueError, read)
        whose(conn, tag("copy_abandoned"))


def slept(mark):
    return f"select pg_sleep(50) /* {mark} */"


def cancel_timeout():
    with connect() as conn, connect() as watcher:
        mark = tag("cancel_timeout")
        waiting = report.when_running(lambda query: value(watcher, query), mark, lambda: conn.cancel_safe(timeout=5))
        expect(errors.QueryCanceled, lambda: conn.execute(slept(mark)))
        waiting.join()
        whose(conn, mark)
        # The server's own limit, for one transaction.
        with conn.transaction():
            conn.execute("set local statement_timeout = '100ms'")
            with conn.transaction(force_rollback=True):
                pass
            expect(errors.QueryCanceled, lambda: conn.execute("select pg_sleep(50)"))
            raise psycopg.Rollback()


def cancel_by_hand():
    with connect("by_tls", sslmode="require") as conn, connect() as watcher:
        for turn in range(3):
            mark = tag("cancel_by_hand", turn)
            cancel = conn.cancel_safe if turn else conn.cancel
            waiting = report.when_running(lambda query: value(watcher, query), mark, cancel)
            error = expect(errors.QueryCanceled, lambda: conn.execute(slept(mark)))
            assert "user request" in str(error), error
            waiting.join()
            whose(conn, mark)


def error_fields():
    with connect() as conn:
        conn.execute("create table if not exists unique_psycopg (n int constraint only_once_psycopg unique)")
        conn.execute("truncate unique_psycopg")
        conn.execute("insert into unique_psycopg values (1)")
        said = expect(errors.UniqueViolation, lambda: conn.execute("insert into unique_psycopg values (1)")).diag
        assert (said.sqlstate, said.severity, said.severity_nonlocalized) == ("23505", "ERROR", "ERROR")
        assert (said.schema_name, said.table_name) == ("public", "unique_psycopg")
        assert said.constraint_name == "only_once_psycopg"
        assert said.message_detail == "Key (n)=(1) already exists.", said.message_detail
        said = expect(errors.SyntaxError, lambda: conn.execute("select 1 frum there")).diag
        assert (said.sqlstate, said.statement_position) == ("42601", "15"), said.statement_position
        raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$"
        said = expect(psycopg.Error, lambda: conn.execute(raised)).diag
        assert (said.sqlstate, said.message_hint, said.message_detail) == ("XX123", "none", "much")
        conn.execute("drop table unique_psycopg")


def error_in_transaction():
    with connect(autocommit=False) as conn:
        expect(errors.DivisionByZero, lambda: conn.execute("select 1 / 0"))
        expect(errors.InFailedSqlTransaction, lambda: conn.execute("select 1"))
        assert conn.info.transaction_status == pq.TransactionStatus.INERROR
        conn.rollback()
        whose(conn, tag("error_in_transaction"))


def transaction():
    with connect(autocommit=False) as conn:
        conn.execute("create table if not exists kept_psycopg (who text)")
        conn.execute("truncate kept_psycopg")
        conn.commit()
        conn.execute("insert into kept_psycopg values (%s)", [tag("lost")])
        conn.rollback()
        conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        conn.execute("insert into kept_psycopg values (%s)", [tag("kept")])
        assert value(conn, "show transaction_isolation") == "serializable"
        conn.commit()
        assert [who for (who,) in conn.execute("select who from kept_psycopg")] == [tag("kept")]
        conn.execute("drop table kept_psycopg")


def savepoint():
    with connect(autocommit=False) as conn:
        with conn.transaction():
            pid = value(conn, "select pg_backend_pid()")
            for turn in range(3):
                try:
                    with conn.transaction():
                        conn.execute("select 1 / 0")
                except errors.DivisionByZero:
                    pass
                with conn.transaction():
                    whose(conn, tag("savepoint", turn))
            assert value(conn, "select pg_backend_pid()") == pid


def big_value():
    with connect() as conn:
        big = bytes(range(256)) * (BIG // 256)
        query = "select md5(%b::bytea), length(%b::bytea)"
        assert conn.execute(query, [big, big[:BIG // 4]]).fetchone() == (hashlib.md5(big).hexdigest(), BIG // 4)
        returned = conn.execute("select %b::bytea", [big], binary=True).fetchone()[0]
        assert returned == big


def notice():
    with connect() as conn:
        heard = []
        conn.add_notice_handler(lambda said: heard.append((said.severity, said.message_primary)))
        conn.execute(f"do $$ begin raise notice '{tag('notice')}'; raise warning 'second'; end $$")
        assert heard == [("NOTICE", tag("notice")), ("WARNING", "second")], heard


def types():
    with connect() as conn:
        for binary in [False, True]:
            for name, wanted in report.VALUES.items():
                given = psycopg.types.json.Jsonb(wanted) if name == "jsonb" else wanted
                found = conn.execute(f"select %s::{name}", [given], binary=binary).fetchone()[0]
                assert found == wanted, (name, binary, found)


def parameters():
    """What a client sets at login and by SET is its own."""
    with connect(application_name="mine", options="") as conn, connect(application_name="other") as other:
        conn.execute("set timezone = 'Asia/Tokyo'")
        for _ in range(5):
            # The second keeps a server busy, so that the first does not always find the same one.
            with other.transaction():
                assert value(other, "show application_name") == "other"
                assert value(conn, "show application_name") == "mine"
                assert value(conn, "show timezone") == "Asia/Tokyo"
                assert value(other, "show timezone") != "Asia/Tokyo"
        assert conn.info.timezone.key == "Asia/Tokyo"


def close_midway():
    with connect() as conn:
        conn.execute("create table if not exists locked_psycopg (n int); truncate locked_psycopg")
        conn.execute("insert into locked_psycopg values (1)")
    gone = connect(autocommit=False)
    gone.execute("update locked_psycopg set n = 2")
    # PostgreSQL itself lets the query of a vanished client run on.
    mark = tag("close_midway")
    gone.pgconn.send_query(f"select pg_sleep({3 if MODE == 'direct' else 50}) /* {mark} */".encode())
    with connect() as conn:
        report.await_running(lambda query: value(conn, query), mark)
    gone.close()
    with connect() as conn:
        with conn.transaction():
            conn.execute(f"set local lock_timeout = '{report.LOCK_MAX}'")
            assert value(conn, "update locked_psycopg set n = n + 10 returning n") == 11
        conn.execute("drop table locked_psycopg")


def server_gone():
    """The server process is ended in a transaction: the driver must notice, and the next connection works."""
    with connect() as conn, connect() as other:
        with expect_lost(), conn.transaction():
            pid = value(conn, "select pg_backend_pid()")
            other.execute("select pg_terminate_backend(%s)", [pid])
            conn.execute("select pg_sleep(10)")
        assert conn.closed
        whose(other, tag("server_gone"))


class expect_lost:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert isinstance(error, psycopg.OperationalError), f"the end was not noticed: {error!r}"
        return True


def console_simple():
    report.through_pooler()
    with connect("stats", dbname="pgbouncer") as conn:
        # Without parameters this driver asks by the simple protocol.
        pools = conn.execute("show pools")
        assert [column.name for column in pools.description][:3] == ["database", "user", "cl_active"]
        assert any(row[0] == "pgbouncer" for row in pools)
        assert value(conn, "show version").startswith("PgBouncer ")


def console_extended():
    report.through_pooler()
    with connect("stats", dbname="pgbouncer", prepare_threshold=None) as conn:
        cursor = psycopg.RawCursor(conn)
        assert any(row[0] == "pgbouncer" for row in cursor.execute("show pools", [], binary=False).fetchall())
        answer = conn.pgconn.exec_params(b"show version", [])
        assert answer.status == pq.ExecStatus.TUPLES_OK, answer.error_message
        assert answer.get_value(0, 0).startswith(b"PgBouncer "), answer.get_value(0, 0)


report.run(psycopg.__version__, globals())
