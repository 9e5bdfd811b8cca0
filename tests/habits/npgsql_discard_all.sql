-- What a connection has is discarded when it is given back, in the packet of the next command that it is used for.
-- by: Npgsql 10.0.3; src/Npgsql/Internal/NpgsqlConnector.cs, Reset; checkout
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
-- ahead
DISCARD ALL;
SELECT name FROM item WHERE id = :id;
