-- Makes the session read-only, and restores the default when the connection is returned to the application's pool.
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, setReadOnly (readOnlyMode=always); checkout
-- by: HikariCP 6.2.1; com/zaxxer/hikari/pool/PoolBase.java, resetConnectionState; release
-- protocol: extended

\set id random(1, 10000)
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY;
SELECT name FROM item WHERE id = :id;
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE;
