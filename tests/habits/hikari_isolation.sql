-- Sets another isolation level for the session, and restores the default when the connection is returned to the application's pool.
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, setTransactionIsolation; checkout
-- by: HikariCP 6.2.1; com/zaxxer/hikari/pool/PoolBase.java, resetConnectionState; release
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set id random(1, 10000)
-- unnamed
-- undescribed
-- one row
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ;
-- ahead
-- unsynced
-- undescribed
BEGIN;
-- described once
SELECT name FROM item WHERE id = :id;
-- undescribed
-- one row
COMMIT;
-- unnamed
-- undescribed
-- one row
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
