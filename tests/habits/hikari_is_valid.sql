-- Checks a connection that has been idle for half a second, with an empty query.
-- by: HikariCP 6.2.1; com/zaxxer/hikari/pool/PoolBase.java, isConnectionDead; checkout
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, isValid; checkout
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set id random(1, 10000)
-- unnamed
/* nothing */;
-- described once
SELECT name FROM item WHERE id = :id;
