-- Checks a connection with an empty query when it is taken from the application's pool.
-- by: bb8-postgres 0.9.0; src/lib.rs, PostgresConnectionManager.is_valid; checkout
-- by: deadpool-postgres 0.14.2; src/config.rs, RecyclingMethod.Verified; checkout
-- by: lib/pq 1.12.3; conn_go18.go, conn.Ping; checkout
-- protocol: prepared
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
/* nothing */;
SELECT name FROM item WHERE id = :id;
