"""asyncpg: its own implementation of the protocol, the extended one throughout, everything in binary.

Always true: each case has an event loop of its own.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import ssl

import asyncpg

import report
from report import BIG, MODE, Impossible, tag


@contextlib.asynccontextmanager
async def connect(user="u", **more):
    conn = await dial(user, **more)
    try:
        yield conn
    finally:
        if not conn.is_closed():
            await conn.close(timeout=10)


async def dial(user="u", **more):
    wanted = dict(host="127.0.0.1", port=report.PORT, database=report.DATABASE, user=user, ssl=False, timeout=report.CONNECT_MAX)
    return await asyncpg.connect(**{**wanted, **more})


@contextlib.asynccontextmanager
async def expect(error_type):
    """Holds the error of this type that its block ends with."""
    held = []
    try:
        yield held
    except error_type as error:
        held.append(error)
        return
    raise AssertionError(f"no {error_type} came")


async def together(count, one):
    """Runs so many at once, to the end of each."""
    ended = await asyncio.gather(*[one(number) for number in range(count)], return_exceptions=True)
    report.sum_up([error for error in ended if error is not None])


async def await_running(conn, mark):
    """Waits until somebody else runs what has this mark in its text."""
    async with asyncio.timeout(20):
        while await conn.fetchval(report.is_running(mark)) == 0:
            await asyncio.sleep(0.01)


async def whose(conn, mark):
    found = await conn.fetchval("select $1::text", mark)
    assert found == mark, f"a foreign answer: {found}, not {mark}"


async def connect_tcp():
    async with connect() as conn:
        await whose(conn, tag("connect_tcp"))


async def connect_unix():
    async with connect(host=report.SOCKETS) as conn:
        await whose(conn, tag("connect_unix"))


async def login(user, **more):
    async with connect(user, **more) as conn:
        assert await conn.fetchval("select current_user") == user


async def auth_md5():
    await login("by_md5", password=report.SECRET)


async def auth_scram():
    await login("by_scram", password=report.SECRET)


async def auth_scram_plus():
    raise Impossible("asyncpg does not bind SCRAM to a channel")


async def auth_wrong():
    for user in ["by_md5", "by_scram"]:
        async with expect(asyncpg.PostgresError) as held:
            await dial(user, password="wrong")
        assert "authentication failed" in str(held[0]), held
        assert held[0].sqlstate == ("28P01" if MODE == "direct" else "08P01"), held[0].sqlstate


def trusting(**more):
    tls = ssl.create_default_context(**more)
    if not more:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


async def tls_require():
    await login("by_tls", ssl="require")
    await login("by_tls", ssl=trusting(), direct_tls=False)
    async with expect(asyncpg.PostgresError):
        await dial("by_tls")


async def tls_verify_full():
    await login("by_tls", host="localhost", ssl=trusting(cafile=report.CA))


async def tls_wrong_name():
    async with expect(ssl.SSLCertVerificationError):
        await dial("by_tls", ssl=trusting(cafile=report.CA))


async def tls_certificate():
    tls = trusting()
    tls.load_cert_chain(report.CERT, report.KEY)
    await login("by_cert", ssl=tls)
    async with expect(asyncpg.PostgresError):
        await dial("by_cert", ssl="require")


async def prepared_shared():
    async def one(number):
        async with connect() as conn:
            for turn in range(15):
                mark = tag("shared", number * 1000 + turn)
                async with conn.transaction():
                    row = await conn.fetchrow("select $1::text, $2::int", mark, turn)
                    assert tuple(row) == (mark, turn), row
                    own = await conn.fetchval(f"select $1::text || '-own-{number}'", mark)
                    assert own == f"{mark}-own-{number}", own

    await together(20, one)


async def prepared_many():
    async with connect() as conn:
        for turn in range(3):
            for number in range(60):
                mark = tag("many", number)
                assert await conn.fetchval(f"select $1::text || '-{number}'", mark) == f"{mark}-{number}"


async def prepared_deallocate():
    # The driver closes the oldest when it keeps more than these.
    async with connect(statement_cache_size=5) as conn:
        for number in range(40):
            assert await conn.fetchval(f"select $1::int + {number}", number) == 2 * number
        for number in range(3):
            named = await conn.prepare(f"select {number}", name=f"named_{number}")
            assert await named.fetchval() == number
            del named
            # Whatever the driver has forgotten is closed with its next request.
            await whose(conn, tag("prepared_deallocate", number))


async def prepared_after_error():
    async with connect() as conn:
        async with expect(asyncpg.UndefinedTableError):
            await conn.fetchval("select $1::int from not_there", 1)
        async with expect(asyncpg.DivisionByZeroError):
            await conn.fetchval("select 1 / $1::int", 0)
        assert await conn.fetchval("select 1 / $1::int", 1) == 1
        async with expect(asyncpg.DivisionByZeroError):
            async with conn.transaction():
                await conn.fetchval("select 2 / $1::int", 0)
        assert await conn.fetchval("select 2 / $1::int", 1) == 2
        # A table changes below its statement: one error for each server at most, then the new columns.
        await conn.execute("create table if not exists changed_asyncpg (a int); truncate changed_asyncpg")
        await conn.execute("insert into changed_asyncpg values (1)")
        assert len(await conn.fetchrow("select * from changed_asyncpg")) == 1
        await conn.execute("alter table changed_asyncpg add b int")
        for _ in range(2):
            with contextlib.suppress(asyncpg.InvalidCachedStatementError):
                await conn.fetchrow("select * from changed_asyncpg")
        assert len(await conn.fetchrow("select * from changed_asyncpg")) == 2
        await conn.execute("drop table changed_asyncpg")


async def unnamed_over_syncs():
    """Without a cache the driver prepares without a name in one round trip, and runs that in the next."""
    async def one(number):
        async with connect(statement_cache_size=0) as conn:
            for turn in range(50):
                mark = tag("unnamed", number * 1000 + turn)
                try:
                    found = await conn.fetchval(f"select $1::text || '-own-{number}'", mark)
                except asyncpg.PostgresError as error:
                    found = error.sqlstate
                report.unnamed(found, f"{mark}-own-{number}")

    await together(20, one)


async def pipeline():
    """executemany sends many Binds and Executes before it reads, in one implicit transaction."""
    async with connect() as conn:
        await conn.execute("create table if not exists piped_asyncpg (n int unique, who text); truncate piped_asyncpg")
        rows = [(n, tag("pipeline", n)) for n in range(5000)]
        await conn.executemany("insert into piped_asyncpg values ($1, $2)", rows)
        assert [tuple(row) for row in await conn.fetch("select * from piped_asyncpg order by n")] == rows
        found = await conn.fetchmany("select $1::text", [[tag("pipeline", n)] for n in range(60)])
        assert [row[0] for row in found] == [tag("pipeline", n) for n in range(60)]
        await conn.execute("drop table piped_asyncpg")


async def pipeline_error():
    async with connect() as conn:
        await conn.execute("create table if not exists halves_asyncpg (n int unique); truncate halves_asyncpg")
        async with expect(asyncpg.UniqueViolationError):
            await conn.executemany("insert into halves_asyncpg values ($1)", [[n] for n in [*range(3000), 0, *range(9000)]])
        assert await conn.fetchval("select count(*) from halves_asyncpg") == 0
        await whose(conn, tag("pipeline_error"))
        await conn.execute("drop table halves_asyncpg")


async def cursor():
    """A portal that is read piece by piece, with Flush and not Sync between them."""
    async with connect() as conn, conn.transaction():
        count = 0
        async for row in conn.cursor("select n, $1::text from generate_series(1, 10000) n", tag("cursor"), prefetch=700):
            count += 1
            assert tuple(row) == (count, tag("cursor")), row
        assert count == 10000
        pieces = await conn.cursor("select generate_series(1, 100)")
        assert [row[0] for row in await pieces.fetch(3)] == [1, 2, 3]
        await whose(conn, tag("cursor"))
        assert [row[0] for row in await pieces.fetch(3)] == [4, 5, 6]


async def copy_in():
    async with connect() as conn:
        await conn.execute("create table if not exists incoming_asyncpg (n int, who text); truncate incoming_asyncpg")
        rows = [(n, tag("copy_in")) for n in range(20000)]
        assert await conn.copy_records_to_table("incoming_asyncpg", records=rows) == "COPY 20000"
        text = "".join(f"{n}\t{who}\n" for n, who in rows).encode()
        assert await conn.copy_to_table("incoming_asyncpg", source=io.BytesIO(text)) == "COPY 20000"
        found = await conn.fetchrow("select count(*), count(distinct n), min(who), max(who) from incoming_asyncpg")
        assert tuple(found) == (40000, 20000, tag("copy_in"), tag("copy_in")), found
        await conn.execute("drop table incoming_asyncpg")


async def copy_out():
    async with connect() as conn:
        text = io.BytesIO()
        query = "select n, $1::text from generate_series(1, 100000) n"
        assert await conn.copy_from_query(query, tag("copy_out"), output=text) == "COPY 100000"
        assert text.getvalue().decode().splitlines() == [f"{n}\t{tag('copy_out')}" for n in range(1, 100001)]
        await whose(conn, tag("copy_out"))


async def copy_failed():
    async with connect() as conn:
        await conn.execute("create table if not exists copied_asyncpg (n int); truncate copied_asyncpg")
        async with expect(asyncpg.InvalidTextRepresentationError):
            await conn.copy_to_table("copied_asyncpg", source=io.BytesIO(b"1\nnot a number\n" * 100000))
        assert await conn.fetchval("select count(*) from copied_asyncpg") == 0
        await conn.execute("drop table copied_asyncpg")


async def copy_abandoned():
    async with connect() as conn:
        await conn.execute("create table if not exists left_asyncpg (n int); truncate left_asyncpg")

        async def breaks():
            yield b"1\n" * 10000
            yield b"1\n" * 10000
            raise ValueError("enough")
        async with expect(ValueError):
            await conn.copy_to_table("left_asyncpg", source=breaks())
        assert await conn.fetchval("select count(*) from left_asyncpg") == 0
        await conn.execute("drop table left_asyncpg")

        async def broken(_):
            raise ValueError("broken")
        async with expect(ValueError):
            await conn.copy_from_query("select generate_series(1, 1000000)", output=broken)
        await whose(conn, tag("copy_abandoned"))
        async with expect(asyncio.TimeoutError):
            await conn.copy_from_query("select pg_sleep(50)", output=io.BytesIO(), timeout=1)
        await whose(conn, tag("copy_abandoned"))


async def cancel_timeout():
    async with connect() as conn:
        for turn in range(3):
            # Long enough for the query to have begun, before which nothing can be cancelled.
            async with expect(asyncio.TimeoutError):
                await conn.fetchval("select pg_sleep(50)", timeout=1)
            await whose(conn, tag("cancel_timeout", turn))
        async with expect(asyncpg.QueryCanceledError):
            async with conn.transaction():
                await conn.execute("set local statement_timeout = '100ms'")
                await conn.execute("select pg_sleep(50)")
        # In a transaction: the time limit of one statement, then it goes on behind a savepoint.
        async with conn.transaction():
            async with expect(asyncio.TimeoutError):
                async with conn.transaction():
                    await conn.fetchval("select pg_sleep(50)", timeout=1)
            await whose(conn, tag("cancel_timeout"))


async def cancel_by_hand():
    async with connect("by_tls", ssl="require") as conn, connect() as watcher:
        for turn in range(3):
            mark = tag("cancel_by_hand", turn)
            task = asyncio.create_task(conn.fetchval(f"select pg_sleep(50) /* {mark} */"))
            await await_running(watcher, mark)
            task.cancel()
            async with expect(asyncio.CancelledError):
                await task
            await whose(conn, mark)


async def error_fields():
    async with connect() as conn:
        await conn.execute("create table if not exists unique_asyncpg (n int constraint only_once_asyncpg unique)")
        await conn.execute("truncate unique_asyncpg")
        await conn.execute("insert into unique_asyncpg values (1)")
        async with expect(asyncpg.UniqueViolationError) as held:
            await conn.execute("insert into unique_asyncpg values ($1)", 1)
        said = held[0]
        assert (said.sqlstate, said.severity, said.severity_en) == ("23505", "ERROR", "ERROR")
        assert (said.schema_name, said.table_name) == ("public", "unique_asyncpg")
        assert (said.constraint_name, said.detail) == ("only_once_asyncpg", "Key (n)=(1) already exists.")
        async with expect(asyncpg.PostgresSyntaxError) as held:
            await conn.fetch("select 1 frum there")
        assert held[0].position == "15", held[0].position
        async with expect(asyncpg.PostgresError) as held:
            await conn.execute("do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none'; end $$")
        assert (held[0].sqlstate, held[0].hint, held[0].message) == ("XX123", "none", "own")
        await conn.execute("drop table unique_asyncpg")


async def error_in_transaction():
    async with connect() as conn:
        change = conn.transaction()
        await change.start()
        async with expect(asyncpg.DivisionByZeroError):
            await conn.fetch("select 1 / 0")
        async with expect(asyncpg.InFailedSQLTransactionError):
            await conn.fetch("select 1")
        assert conn.is_in_transaction()
        await change.rollback()
        await whose(conn, tag("error_in_transaction"))


async def transaction():
    async with connect() as conn:
        await conn.execute("create table if not exists kept_asyncpg (who text); truncate kept_asyncpg")
        change = conn.transaction()
        await change.start()
        await conn.execute("insert into kept_asyncpg values ($1)", tag("lost"))
        await change.rollback()
        async with conn.transaction(isolation="serializable"):
            await conn.execute("insert into kept_asyncpg values ($1)", tag("kept"))
            assert await conn.fetchval("show transaction_isolation") == "serializable"
        assert [row[0] for row in await conn.fetch("select who from kept_asyncpg")] == [tag("kept")]
        await conn.execute("drop table kept_asyncpg")


async def savepoint():
    async with connect() as conn, conn.transaction():
        pid = await conn.fetchval("select pg_backend_pid()")
        for turn in range(3):
            async with expect(asyncpg.DivisionByZeroError):
                async with conn.transaction():
                    await conn.fetch("select 1 / 0")
            async with conn.transaction():
                await whose(conn, tag("savepoint", turn))
        assert await conn.fetchval("select pg_backend_pid()") == pid


async def big_value():
    async with connect() as conn:
        big = bytes(range(256)) * (BIG // 256)
        assert await conn.fetchval("select md5($1::bytea)", big) == hashlib.md5(big).hexdigest()
        assert await conn.fetchval("select $1::bytea", big) == big
        await whose(conn, tag("big_value"))


async def notice():
    async with connect() as conn:
        heard = []
        conn.add_log_listener(lambda _, said: heard.append((said.severity, said.message)))
        await conn.execute(f"do $$ begin raise notice '{tag('notice')}'; raise warning 'second'; end $$")
        # The driver tells of them in a later round of its loop.
        await asyncio.sleep(0)
        assert heard == [("NOTICE", tag("notice")), ("WARNING", "second")], heard


async def types():
    values = {**report.VALUES, "int4range": asyncpg.Range(1, 5)}
    async with connect() as conn:
        # A codec of the user's own.
        await conn.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        for name, wanted in values.items():
            found = await conn.fetchval(f"select $1::{name}", wanted)
            assert found == wanted, (name, found)
        # A type that the driver has to look up.
        await conn.execute("drop type if exists mood_asyncpg; create type mood_asyncpg as (name text, level int)")
        found = await conn.fetchval("select array[row('well', 3)::mood_asyncpg]")
        assert [tuple(mood) for mood in found] == [("well", 3)], found
        await conn.execute("drop type mood_asyncpg")


async def parameters():
    """What a client sets at login and by SET is its own."""
    mine, others = dict(application_name="mine"), dict(application_name="other")
    async with connect(server_settings=mine) as conn, connect(server_settings=others) as other:
        await conn.execute("set timezone = 'Asia/Tokyo'")
        for _ in range(5):
            # The second keeps a server busy, so that the first does not always find the same one.
            async with other.transaction():
                assert await other.fetchval("show application_name") == "other"
                assert await conn.fetchval("show application_name") == "mine"
                assert await conn.fetchval("show timezone") == "Asia/Tokyo"
                assert await other.fetchval("show timezone") != "Asia/Tokyo"
        assert conn.get_settings().TimeZone == "Asia/Tokyo"
    # What the driver's pool does with a connection that comes back.
    async with asyncpg.create_pool(host="127.0.0.1", port=report.PORT, database=report.DATABASE, user="u", ssl=False,
                                   min_size=1, max_size=3) as pool:
        for number in range(20):
            async with pool.acquire() as conn:
                await whose(conn, tag("parameters", number))


async def close_midway():
    async with connect() as conn:
        await conn.execute("create table if not exists locked_asyncpg (n int); truncate locked_asyncpg")
        await conn.execute("insert into locked_asyncpg values (1)")
        gone = await dial()
        await gone.execute("begin; update locked_asyncpg set n = 2")
        # PostgreSQL itself lets the query of a vanished client run on.
        mark = tag("close_midway")
        asleep = asyncio.create_task(gone.execute(f"select pg_sleep({3 if MODE == 'direct' else 50}) /* {mark} */"))
        await await_running(conn, mark)
        gone.terminate()
        await asyncio.gather(asleep, return_exceptions=True)
        async with conn.transaction():
            await conn.execute(f"set local lock_timeout = '{report.LOCK_MAX}'")
            assert await conn.fetchval("update locked_asyncpg set n = n + 10 returning n") == 11
        await conn.execute("drop table locked_asyncpg")


async def server_gone():
    """The server process is ended in a transaction: the driver must notice, and another connection works."""
    async with connect() as other:
        conn = await dial()
        await conn.execute("begin")
        pid = await conn.fetchval("select pg_backend_pid()")
        await other.execute("select pg_terminate_backend($1)", pid)
        # Which error it is depends on whether the driver has read the end before it asks.
        async with expect(Exception):
            await conn.execute("select pg_sleep(10)")
        conn.terminate()
        await whose(other, tag("server_gone"))


async def console_simple():
    report.through_pooler()
    async with connect("stats", database="pgbouncer") as conn:
        # Without parameters it is the simple protocol; only the last word of the answer is told.
        assert await conn.execute("show version") == "SHOW"


async def console_extended():
    report.through_pooler()
    async with connect("stats", database="pgbouncer") as conn:
        assert any(row["database"] == "pgbouncer" for row in await conn.fetch("show pools"))
        assert (await conn.fetchval("show version")).startswith("PgBouncer ")


report.run(asyncpg.__version__, globals(), lambda case: asyncio.run(case()))
