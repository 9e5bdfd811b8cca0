-- Discards the session state of a returned connection, except for prepared statements.
-- by: Npgsql 10.0.3; src/Npgsql/Internal/NpgsqlConnector.cs, GenerateResetMessage; checkout
-- protocol: prepared
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
-- ahead
SET SESSION AUTHORIZATION DEFAULT\;RESET ALL\;CLOSE ALL\;UNLISTEN *\;SELECT pg_advisory_unlock_all()\;DISCARD SEQUENCES\;DISCARD TEMP;
SELECT name FROM item WHERE id = :id;
