-- Discards the session state, except for prepared statements, when a connection is taken from the application's pool again.
-- by: deadpool-postgres 0.14.2; src/config.rs, RecyclingMethod.Clean; checkout
-- protocol: prepared
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
CLOSE ALL\; SET SESSION AUTHORIZATION DEFAULT\; RESET ALL\; UNLISTEN *\; SELECT pg_advisory_unlock_all()\; DISCARD TEMP\; DISCARD SEQUENCES;
SELECT name FROM item WHERE id = :id;
