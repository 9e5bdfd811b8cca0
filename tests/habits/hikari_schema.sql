-- Sets the search_path to the schema of a tenant, and restores the default when the connection is returned to the application's pool.
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, setSchema; checkout
-- by: HikariCP 6.2.1; com/zaxxer/hikari/pool/PoolBase.java, resetConnectionState; release
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set tenant random(1, 4)
\set id random(1, 100)
-- unnamed
-- literal
-- one row
SET SESSION search_path TO 'tenant_:tenant';
-- renewed
SELECT name FROM item WHERE id = :id;
-- unnamed
-- one row
SET SESSION search_path TO 'public';
