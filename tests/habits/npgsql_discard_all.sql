-- Discards the session state of a returned connection, in the packet of the first command of its next use.
-- by: Npgsql 10.0.3; src/Npgsql/Internal/NpgsqlConnector.cs, Reset; checkout
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
-- ahead
DISCARD ALL;
SELECT name FROM item WHERE id = :id;
