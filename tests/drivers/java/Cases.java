// pgjdbc, with nothing around it.
//
// Always true: statements are prepared on the server from their first use; a case fails by an exception, and the others go
// on; each has a time limit of its own.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;
import org.postgresql.copy.CopyOut;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public final class Cases {
    interface Work {
        void run() throws Exception;
    }

    /** The driver cannot do this, or it makes no sense here. */
    static final class Impossible extends Exception {
        Impossible(String reason) {
            super(reason);
        }
    }

    /** A limit of the pooler that is documented. */
    static final class Limit extends Exception {
        Limit(String reason) {
            super(reason);
        }
    }

    static final String MODE = System.getenv("DRIVERS_MODE");
    static final String SECRET = System.getenv("DRIVERS_SECRET");
    static final boolean IS_DIRECT = MODE.equals("direct");
    static final int BIG = 64 << 20;

    /** What nobody else asks for, so that an answer tells whose it is. */
    static String tag(String name, int number) {
        return name + "-" + ProcessHandle.current().pid() + "-" + number;
    }

    static Connection connect(String user, String... more) throws SQLException {
        Properties wanted = new Properties();
        List<String> pairs = new ArrayList<>(List.of("user", user, "sslmode", "disable", "prepareThreshold", "1",
            "connectTimeout", "30", "gssEncMode", "disable", "host", "127.0.0.1", "database", System.getenv("DRIVERS_DATABASE")));
        pairs.addAll(Arrays.asList(more));
        for (int at = 0; at < pairs.size(); at += 2) {
            wanted.setProperty(pairs.get(at), pairs.get(at + 1));
        }
        String host = (String) wanted.remove("host");
        String database = (String) wanted.remove("database");
        return DriverManager.getConnection("jdbc:postgresql://" + host + ":" + System.getenv("DRIVERS_PORT") + "/" + database, wanted);
    }

    static Object value(Connection conn, String query, Object... values) throws SQLException {
        try (PreparedStatement statement = conn.prepareStatement(query)) {
            for (int at = 0; at < values.length; at++) {
                statement.setObject(at + 1, values[at]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                check(rows.next(), "no row of " + query);
                return rows.getObject(1);
            }
        }
    }

    static void run(Connection conn, String query) throws SQLException {
        try (Statement statement = conn.createStatement()) {
            statement.execute(query);
        }
    }

    static void whose(Connection conn, String mark) throws SQLException {
        same("a foreign answer", value(conn, "select ?::text", mark), mark);
    }

    static void check(boolean holds, String words) {
        if (!holds) {
            throw new AssertionError(words);
        }
    }

    static void same(String what, Object found, Object wanted) {
        check(Objects.deepEquals(found, wanted), what + ": " + found + ", not " + wanted);
    }

    static SQLException fails(String code, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException error) {
            check(code == null || code.equals(error.getSQLState()), error.getSQLState() + " came, not " + code + ": " + error.getMessage());
            return error;
        }
        throw new AssertionError("no " + code + " came");
    }

    static void together(int count, Callable<Void>[] work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<Void>> all = threads.invokeAll(Arrays.asList(work));
        threads.shutdown();
        List<String> failures = new ArrayList<>();
        for (Future<Void> one : all) {
            try {
                one.get();
            } catch (java.util.concurrent.ExecutionException failure) {
                failures.add(String.valueOf(failure.getCause()));
            }
        }
        check(failures.isEmpty(), String.join("; ", failures));
    }

    /** A query that takes longer than a case may, under a mark. */
    static String slept(String mark) {
        return "select pg_sleep(50) /* " + mark + " */";
    }

    /** Waits until somebody but the asker runs what has this mark in its text. */
    static void awaitRunning(Connection watcher, String mark) throws Exception {
        String query = "select count(*)::int from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '%" + mark + "%'";
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20); value(watcher, query).equals(0);) {
            check(System.nanoTime() < end, mark + " does not run");
            Thread.sleep(10);
        }
    }

    static void login(String user, String... more) throws SQLException {
        try (Connection conn = connect(user, more)) {
            same("user", value(conn, "select current_user::text"), user);
        }
    }

    static void authWrong() throws Exception {
        for (String user : List.of("by_md5", "by_scram")) {
            SQLException error = fails(IS_DIRECT ? "28P01" : "08P01", () -> connect(user, "password", "wrong"));
            check(error.getMessage().contains("authentication failed"), error.getMessage());
        }
    }

    static void tlsRequire() throws Exception {
        login("by_tls", "sslmode", "require");
        fails(null, () -> connect("by_tls"));
    }

    static void tlsCertificate() throws Exception {
        // The driver reads a key as DER only.
        String text = Files.readString(Path.of(System.getenv("DRIVERS_KEY")));
        Path key = Files.createTempFile("drivers", ".pk8");
        Files.write(key, Base64.getMimeDecoder().decode(text.replaceAll("-----[A-Z ]+-----", "")));
        try {
            login("by_cert", "sslmode", "require", "sslcert", System.getenv("DRIVERS_CERT"), "sslkey", key.toString());
        } finally {
            Files.delete(key);
        }
        fails(null, () -> connect("by_cert", "sslmode", "require"));
    }

    @SuppressWarnings("unchecked")
    static void preparedShared() throws Exception {
        Callable<Void>[] work = new Callable[20];
        for (int at = 0; at < work.length; at++) {
            int number = at;
            work[at] = () -> {
                try (Connection conn = connect("u")) {
                    conn.setAutoCommit(false);
                    for (int turn = 0; turn < 15; turn++) {
                        String mark = tag("shared", number * 1000 + turn);
                        same("a foreign answer", value(conn, "select ?::text || ?::int", mark, turn), mark + turn);
                        same("a foreign answer", value(conn, "select ?::text || '-own-" + number + "'", mark), mark + "-own-" + number);
                        conn.commit();
                    }
                }
                return null;
            };
        }
        together(20, work);
    }

    static void preparedMany() throws Exception {
        try (Connection conn = connect("u")) {
            for (int turn = 0; turn < 3; turn++) {
                for (int number = 0; number < 60; number++) {
                    String mark = tag("many", number);
                    same("a foreign answer", value(conn, "select ?::text || '-" + number + "'", mark), mark + "-" + number);
                }
            }
        }
    }

    static void preparedDeallocate() throws Exception {
        // The driver closes the oldest when it keeps more than these.
        try (Connection conn = connect("u", "preparedStatementCacheQueries", "5")) {
            for (int number = 0; number < 40; number++) {
                same("answer", value(conn, "select ?::int + " + number, number), 2 * number);
            }
            whose(conn, tag("kept", 0));
            run(conn, "deallocate all");
            whose(conn, tag("kept", 1));
            run(conn, "discard all");
            whose(conn, tag("kept", 2));
        }
    }

    static void preparedAfterError() throws Exception {
        try (Connection conn = connect("u", "autosave", "conservative")) {
            fails("42P01", () -> value(conn, "select ?::int from not_there", 1));
            fails("22012", () -> value(conn, "select 1 / ?::int", 0));
            same("answer", value(conn, "select 1 / ?::int", 1), 1);
            // A table changes below its statement, also inside a transaction, where the driver goes back to a savepoint.
            run(conn, "create table if not exists changed_pgjdbc (a int); truncate changed_pgjdbc; insert into changed_pgjdbc values (1)");
            value(conn, "select * from changed_pgjdbc");
            run(conn, "alter table changed_pgjdbc add b int");
            conn.setAutoCommit(false);
            try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery("select * from changed_pgjdbc")) {
                same("columns", rows.getMetaData().getColumnCount(), 2);
            } catch (SQLException error) {
                conn.rollback();
                conn.setAutoCommit(true);
                run(conn, "drop table changed_pgjdbc");
                if (MODE.equals("transaction") && "25P02".equals(error.getSQLState())) {
                    throw new Limit("autosave does not heal a statement whose table has changed in the middle of a transaction");
                }
                throw error;
            }
            value(conn, "select * from changed_pgjdbc");
            conn.commit();
            conn.setAutoCommit(true);
            run(conn, "drop table changed_pgjdbc");
        }
    }

    @SuppressWarnings("unchecked")
    static void unnamedOverSyncs() throws Exception {
        Callable<Void>[] work = new Callable[20];
        for (int at = 0; at < work.length; at++) {
            int number = at;
            work[at] = () -> {
                try (Connection conn = connect("u", "prepareThreshold", "0")) {
                    for (int turn = 0; turn < 30; turn++) {
                        String mark = tag("unnamed", number * 1000 + turn);
                        String query = "select ?::text || '-own-" + number + "'";
                        try (PreparedStatement statement = conn.prepareStatement(query)) {
                            same("types", statement.getParameterMetaData().getParameterCount(), 1);
                            statement.setString(1, mark);
                            ResultSet rows = statement.executeQuery();
                            check(rows.next(), "no row");
                            same("a foreign answer", rows.getString(1), mark + "-own-" + number);
                        }
                    }
                }
                return null;
            };
        }
        together(20, work);
    }

    static void pipeline() throws Exception {
        try (Connection conn = connect("u", "reWriteBatchedInserts", "true")) {
            run(conn, "create table if not exists piped_pgjdbc (n int unique, who text); truncate piped_pgjdbc");
            try (PreparedStatement insert = conn.prepareStatement("insert into piped_pgjdbc values (?, ?)")) {
                for (int number = 0; number < 5000; number++) {
                    insert.setInt(1, number);
                    insert.setString(2, tag("pipeline", number));
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            try (Statement batch = conn.createStatement()) {
                for (int number = 0; number < 60; number++) {
                    batch.addBatch("update piped_pgjdbc set who = who || '!' where n = " + number);
                }
                same("updates", Arrays.stream(batch.executeBatch()).sum(), 60);
            }
            for (int number : new int[] {0, 59, 60, 4999}) {
                same("a foreign row", value(conn, "select who from piped_pgjdbc where n = ?", number), tag("pipeline", number) + (number < 60 ? "!" : ""));
            }
            run(conn, "drop table piped_pgjdbc");
        }
    }

    static void pipelineError() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists halves_pgjdbc (n int unique); truncate halves_pgjdbc");
            conn.setAutoCommit(false);
            try (PreparedStatement insert = conn.prepareStatement("insert into halves_pgjdbc values (?)")) {
                for (int number = 0; number < 3000; number++) {
                    insert.setInt(1, number == 2000 ? 0 : number);
                    insert.addBatch();
                }
                fails("23505", insert::executeBatch);
            }
            conn.rollback();
            same("rows", value(conn, "select count(*)::int from halves_pgjdbc"), 0);
            conn.commit();
            conn.setAutoCommit(true);
            run(conn, "drop table halves_pgjdbc");
        }
    }

    static void cursor() throws Exception {
        try (Connection conn = connect("u")) {
            conn.setAutoCommit(false);
            try (PreparedStatement pieces = conn.prepareStatement("select n, ?::text from generate_series(1, 10000) n")) {
                pieces.setFetchSize(700);
                pieces.setString(1, tag("cursor", 0));
                ResultSet rows = pieces.executeQuery();
                int count = 0;
                while (rows.next()) {
                    count++;
                    check(rows.getInt(1) == count && rows.getString(2).equals(tag("cursor", 0)), "a foreign row");
                    if (count == 2000) {
                        whose(conn, tag("cursor", 1));
                    }
                }
                same("rows", count, 10000);
            }
            conn.commit();
        }
    }

    static CopyManager copies(Connection conn) throws SQLException {
        return conn.unwrap(PGConnection.class).getCopyAPI();
    }

    static ByteArrayInputStream bytes(String text) {
        return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    static void copyIn() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists incoming_pgjdbc (n int, who text); truncate incoming_pgjdbc");
            StringBuilder rows = new StringBuilder();
            for (int number = 0; number < 20000; number++) {
                rows.append(number).append('\t').append(tag("copy_in", 0)).append('\n');
            }
            same("rows", copies(conn).copyIn("copy incoming_pgjdbc from stdin", bytes(rows.toString())), 20000L);
            same("rows", value(conn, "select count(distinct n)::int from incoming_pgjdbc where who = ?", tag("copy_in", 0)), 20000);
            run(conn, "drop table incoming_pgjdbc");
        }
    }

    static void copyOut() throws Exception {
        try (Connection conn = connect("u")) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            String mark = tag("copy_out", 0);
            copies(conn).copyOut("copy (select n, '" + mark + "' from generate_series(1, 100000) n) to stdout", text);
            String[] lines = text.toString(StandardCharsets.UTF_8).split("\n");
            same("rows", lines.length, 100000);
            for (int at = 0; at < lines.length; at++) {
                same("a foreign row", lines[at], (at + 1) + "\t" + mark);
            }
            whose(conn, mark);
        }
    }

    static void copyFailed() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists copied_pgjdbc (n int); truncate copied_pgjdbc");
            String rows = "1\nnot a number\n".repeat(100000);
            fails("22P02", () -> copies(conn).copyIn("copy copied_pgjdbc from stdin", bytes(rows)));
            same("rows", value(conn, "select count(*)::int from copied_pgjdbc"), 0);
            run(conn, "drop table copied_pgjdbc");
        }
    }

    static void copyAbandoned() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists left_pgjdbc (n int); truncate left_pgjdbc");
            CopyIn in = copies(conn).copyIn("copy left_pgjdbc from stdin");
            byte[] row = "1\n".getBytes(StandardCharsets.UTF_8);
            for (int number = 0; number < 20000; number++) {
                in.writeToCopy(row, 0, row.length);
            }
            in.cancelCopy();
            same("rows", value(conn, "select count(*)::int from left_pgjdbc"), 0);
            run(conn, "drop table left_pgjdbc");
            Connection other = connect("u");
            CopyOut out = copies(other).copyOut("copy (select generate_series(1, 100000000)) to stdout");
            check(out.readFromCopy() != null, "nothing came");
            other.abort(Runnable::run);
            whose(conn, tag("copy_abandoned", 0));
        }
    }

    static void cancelTimeout() throws Exception {
        try (Connection conn = connect("u")) {
            for (int turn = 0; turn < 3; turn++) {
                try (Statement statement = conn.createStatement()) {
                    statement.setQueryTimeout(1);
                    fails("57014", () -> statement.execute("select pg_sleep(50)"));
                }
                whose(conn, tag("cancel_timeout", turn));
            }
            conn.setAutoCommit(false);
            fails("57014", () -> run(conn, "set local statement_timeout = '100ms'; select pg_sleep(50)"));
            conn.rollback();
        }
    }

    static void cancelByHand() throws Exception {
        try (Connection conn = connect("by_tls", "sslmode", "require"); Connection watcher = connect("u")) {
            for (int turn = 0; turn < 3; turn++) {
                String mark = tag("cancel_by_hand", turn);
                try (Statement statement = conn.createStatement()) {
                    Thread canceller = new Thread(() -> {
                        try {
                            awaitRunning(watcher, mark);
                            statement.cancel();
                        } catch (Exception error) {
                            System.err.println(error);
                        }
                    });
                    canceller.start();
                    SQLException error = fails("57014", () -> statement.execute(slept(mark)));
                    check(error.getMessage().contains("user request"), error.getMessage());
                    canceller.join();
                }
                whose(conn, mark);
            }
        }
    }

    static void errorFields() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists unique_pgjdbc (n int constraint only_once_pgjdbc unique); truncate unique_pgjdbc");
            run(conn, "insert into unique_pgjdbc values (1)");
            ServerErrorMessage said = ((PSQLException) fails("23505", () -> run(conn, "insert into unique_pgjdbc values (1)"))).getServerErrorMessage();
            same("fields", List.of(said.getSeverity(), said.getSchema(), said.getTable(), said.getConstraint(), said.getDetail()),
                List.of("ERROR", "public", "unique_pgjdbc", "only_once_pgjdbc", "Key (n)=(1) already exists."));
            said = ((PSQLException) fails("42601", () -> run(conn, "select 1 frum there"))).getServerErrorMessage();
            same("position", said.getPosition(), 15);
            String raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none'; end $$";
            said = ((PSQLException) fails("XX123", () -> run(conn, raised))).getServerErrorMessage();
            same("fields", List.of(said.getMessage(), said.getHint()), List.of("own", "none"));
            run(conn, "drop table unique_pgjdbc");
        }
    }

    static void errorInTransaction() throws Exception {
        try (Connection conn = connect("u")) {
            conn.setAutoCommit(false);
            fails("22012", () -> run(conn, "select 1 / 0"));
            fails("25P02", () -> run(conn, "select 1"));
            conn.rollback();
            whose(conn, tag("error_in_transaction", 0));
            conn.rollback();
        }
    }

    static void transaction() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists kept_pgjdbc (who text); truncate kept_pgjdbc");
            conn.setAutoCommit(false);
            run(conn, "insert into kept_pgjdbc values ('" + tag("lost", 0) + "')");
            conn.rollback();
            run(conn, "set transaction isolation level serializable");
            run(conn, "insert into kept_pgjdbc values ('" + tag("kept", 0) + "')");
            same("level", value(conn, "show transaction_isolation"), "serializable");
            conn.commit();
            same("who", value(conn, "select string_agg(who, ',') from kept_pgjdbc"), tag("kept", 0));
            run(conn, "drop table kept_pgjdbc");
            conn.commit();
        }
    }

    static void savepoint() throws Exception {
        try (Connection conn = connect("u")) {
            conn.setAutoCommit(false);
            Object pid = value(conn, "select pg_backend_pid()");
            for (int turn = 0; turn < 3; turn++) {
                Savepoint inner = conn.setSavepoint();
                fails("22012", () -> run(conn, "select 1 / 0"));
                conn.rollback(inner);
                whose(conn, tag("savepoint", turn));
            }
            same("server", value(conn, "select pg_backend_pid()"), pid);
            conn.commit();
        }
    }

    static void bigValue() throws Exception {
        try (Connection conn = connect("u")) {
            byte[] big = new byte[BIG];
            for (int at = 0; at < big.length; at++) {
                big[at] = (byte) (at * 7);
            }
            byte[] sum = MessageDigest.getInstance("MD5").digest(big);
            same("sum", value(conn, "select md5(?::bytea)", (Object) big), String.format("%032x", new BigInteger(1, sum)));
            // Binary from the first answer on only where the driver knows the types beforehand.
            value(conn, "select ?::bytea", (Object) new byte[] {1});
            check(Arrays.equals((byte[]) value(conn, "select ?::bytea", (Object) big), big), "other bytes came back");
            whose(conn, tag("big_value", 0));
        }
    }

    static void notice() throws Exception {
        try (Connection conn = connect("u"); Statement statement = conn.createStatement()) {
            statement.execute("do $$ begin raise notice '" + tag("notice", 0) + "'; raise warning 'second'; end $$");
            SQLWarning first = statement.getWarnings();
            same("notices", List.of(first.getMessage(), first.getNextWarning().getMessage()), List.of(tag("notice", 0), "second"));
        }
    }

    static void types() throws Exception {
        for (String binary : List.of("true", "false")) {
            try (Connection conn = connect("u", "binaryTransfer", binary)) {
                Object numbers = value(conn, "select ?::int4[]", conn.createArrayOf("int4", new Integer[] {1, -2, null, 3}));
                same("int4[]", ((java.sql.Array) numbers).getArray(), new Integer[] {1, -2, null, 3});
                String[] texts = {"a", "quoted \" and \\", "", tag("types", 0)};
                same("text[]", ((java.sql.Array) value(conn, "select ?::text[]", conn.createArrayOf("text", texts))).getArray(), texts);
                BigDecimal number = new BigDecimal("12345678901234567890.123456789");
                same("numeric", value(conn, "select ?::numeric", number), number);
                OffsetDateTime when = OffsetDateTime.of(2026, 2, 28, 23, 59, 59, 999999000, ZoneOffset.UTC);
                same("timestamptz", ((java.sql.Timestamp) value(conn, "select ?::timestamptz", when)).toInstant(), when.toInstant());
                UUID id = new UUID(0, 0x1234);
                same("uuid", value(conn, "select ?::uuid", id), id);
                byte[] every = new byte[256];
                for (int at = 0; at < every.length; at++) {
                    every[at] = (byte) at;
                }
                check(Arrays.equals((byte[]) value(conn, "select ?::bytea", (Object) every), every), "other bytes came back");
                same("float8", value(conn, "select ?::float8", 1e-300), 1e-300);
                same("bool", value(conn, "select ?::bool", true), true);
                same("jsonb", value(conn, "select ?::jsonb", "{\"a\": [1, null]}").toString(), "{\"a\": [1, null]}");
                same("null", value(conn, "select ?::text", (Object) null), null);
            }
        }
    }

    static void parameters() throws Exception {
        try (Connection conn = connect("u", "ApplicationName", "mine"); Connection other = connect("u", "ApplicationName", "other")) {
            other.setAutoCommit(false);
            run(conn, "set timezone = 'Asia/Tokyo'");
            for (int turn = 0; turn < 5; turn++) {
                // The second keeps a server busy, so that the first does not always find the same one.
                same("other's name", value(other, "show application_name"), "other");
                same("name", value(conn, "show application_name"), "mine");
                same("zone", value(conn, "show timezone"), "Asia/Tokyo");
                check(!value(other, "show timezone").equals("Asia/Tokyo"), "a foreign zone");
                other.commit();
            }
            same("reported zone", conn.unwrap(PGConnection.class).getParameterStatus("TimeZone"), "Asia/Tokyo");
            conn.setClientInfo("ApplicationName", "renamed");
            same("name", value(conn, "show application_name"), "renamed");
        }
    }

    static void closeMidway() throws Exception {
        try (Connection conn = connect("u")) {
            run(conn, "create table if not exists locked_pgjdbc (n int); truncate locked_pgjdbc; insert into locked_pgjdbc values (1)");
            Connection gone = connect("u");
            gone.setAutoCommit(false);
            run(gone, "update locked_pgjdbc set n = 2");
            String mark = tag("close_midway", 0);
            Thread asleep = new Thread(() -> {
                try {
                    // PostgreSQL itself lets the query of a vanished client run on.
                    run(gone, "select pg_sleep(" + (IS_DIRECT ? 3 : 50) + ") /* " + mark + " */");
                } catch (SQLException expected) {
                    // The connection is taken away below it.
                }
            });
            asleep.start();
            awaitRunning(conn, mark);
            gone.abort(Runnable::run);
            asleep.join();
            conn.setAutoCommit(false);
            run(conn, "set local lock_timeout = '20s'");
            same("row", value(conn, "update locked_pgjdbc set n = n + 10 returning n"), 11);
            run(conn, "drop table locked_pgjdbc");
            conn.commit();
        }
    }

    static void serverGone() throws Exception {
        try (Connection other = connect("u"); Connection conn = connect("u")) {
            conn.setAutoCommit(false);
            Object pid = value(conn, "select pg_backend_pid()");
            value(other, "select pg_terminate_backend(?)", pid);
            fails(null, () -> run(conn, "select pg_sleep(10)"));
            check(!conn.isValid(2), "the connection is still used");
            whose(other, tag("server_gone", 0));
        }
    }

    static void askConsole(String mode) throws Exception {
        if (IS_DIRECT) {
            throw new Impossible("PostgreSQL has no console");
        }
        try (Connection conn = connect("stats", "database", "pgbouncer", "preferQueryMode", mode, "assumeMinServerVersion", "9.0");
             Statement statement = conn.createStatement()) {
            ResultSet rows = statement.executeQuery("show pools");
            boolean found = false;
            while (rows.next()) {
                found |= rows.getString("database").equals("pgbouncer");
            }
            check(found, "the console's own pool is not shown");
            rows = statement.executeQuery("show version");
            check(rows.next() && rows.getString(1).startsWith("PgBouncer "), "an odd version");
        }
    }

    static Map<String, Work> cases() {
        String ca = System.getenv("DRIVERS_CA");
        Map<String, Work> cases = new LinkedHashMap<>();
        cases.put("connect_tcp", () -> login("u"));
        cases.put("connect_unix", () -> { throw new Impossible("pgjdbc has no unix sockets of its own"); });
        cases.put("auth_md5", () -> login("by_md5", "password", SECRET));
        cases.put("auth_scram", () -> login("by_scram", "password", SECRET));
        cases.put("auth_scram_plus", () -> login("by_scram", "password", SECRET, "sslmode", "require", "channelBinding", "require"));
        cases.put("auth_wrong", Cases::authWrong);
        cases.put("tls_require", Cases::tlsRequire);
        cases.put("tls_verify_full", () -> login("by_tls", "host", "localhost", "sslmode", "verify-full", "sslrootcert", ca));
        cases.put("tls_wrong_name", () -> fails(null, () -> connect("by_tls", "sslmode", "verify-full", "sslrootcert", ca)));
        cases.put("tls_certificate", Cases::tlsCertificate);
        cases.put("prepared_shared", Cases::preparedShared);
        cases.put("prepared_many", Cases::preparedMany);
        cases.put("prepared_deallocate", Cases::preparedDeallocate);
        cases.put("prepared_after_error", Cases::preparedAfterError);
        cases.put("unnamed_over_syncs", Cases::unnamedOverSyncs);
        cases.put("pipeline", Cases::pipeline);
        cases.put("pipeline_error", Cases::pipelineError);
        cases.put("cursor", Cases::cursor);
        cases.put("copy_in", Cases::copyIn);
        cases.put("copy_out", Cases::copyOut);
        cases.put("copy_failed", Cases::copyFailed);
        cases.put("copy_abandoned", Cases::copyAbandoned);
        cases.put("cancel_timeout", Cases::cancelTimeout);
        cases.put("cancel_by_hand", Cases::cancelByHand);
        cases.put("error_fields", Cases::errorFields);
        cases.put("error_in_transaction", Cases::errorInTransaction);
        cases.put("transaction", Cases::transaction);
        cases.put("savepoint", Cases::savepoint);
        cases.put("big_value", Cases::bigValue);
        cases.put("notice", Cases::notice);
        cases.put("types", Cases::types);
        cases.put("parameters", Cases::parameters);
        cases.put("close_midway", Cases::closeMidway);
        cases.put("server_gone", Cases::serverGone);
        cases.put("console_simple", () -> askConsole("simple"));
        cases.put("console_extended", () -> askConsole("extended"));
        return cases;
    }

    static String outcome(Work work) {
        if (work == null) {
            return "fail the program has no such case";
        }
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try {
            thread.submit(() -> {
                work.run();
                return null;
            }).get(60, TimeUnit.SECONDS);
            return "pass";
        } catch (TimeoutException late) {
            return "fail 60 seconds have passed";
        } catch (java.util.concurrent.ExecutionException failure) {
            Throwable cause = failure.getCause();
            if (cause instanceof Impossible) {
                return "none " + cause.getMessage();
            }
            if (cause instanceof Limit) {
                return "limit " + cause.getMessage();
            }
            String line = Arrays.stream(cause.getStackTrace()).filter(frame -> frame.getFileName() != null && frame.getFileName().equals("Cases.java"))
                .map(frame -> String.valueOf(frame.getLineNumber())).limit(3).reduce((a, b) -> a + " from " + b).orElse("?");
            return "fail line " + line + ": " + cause;
        } catch (InterruptedException interrupted) {
            return "fail interrupted";
        } finally {
            thread.shutdownNow();
        }
    }

    static void say(String line) {
        System.out.println(line.replaceAll("\\s+", " "));
        System.out.flush();
    }

    public static void main(String[] names) throws Exception {
        Map<String, Work> cases = cases();
        say("version " + org.postgresql.util.DriverInfo.DRIVER_VERSION);
        for (String name : names) {
            say("begin " + name);
            say("case " + name + " " + outcome(cases.get(name)));
        }
        // What a failed case has left open must not keep the program.
        System.exit(0);
    }
}
