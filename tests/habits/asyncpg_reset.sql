-- Resets the session when the connection is returned to the driver's pool.
-- by: asyncpg 0.32.0; asyncpg/connection.py, Connection.get_reset_query; release
-- protocol: prepared
-- startup: client_encoding='utf-8'

\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
-- simple
SELECT pg_advisory_unlock_all()\;
CLOSE ALL\;
UNLISTEN *\;
RESET ALL;
