-- Checks a connection with an empty query when it is taken from the driver's pool, and rolls back when it is returned within a transaction.
-- (pgbench cannot send an empty query, so the script sends a comment.)
-- by: psycopg_pool 3.3.3; psycopg_pool/pool.py, ConnectionPool.check_connection (check=); checkout
-- by: psycopg_pool 3.3.3; psycopg_pool/pool.py, ConnectionPool._reset_connection; release
-- protocol: extended

\set id random(1, 10000)
-- simple
/* nothing */;
-- simple
BEGIN;
SELECT name FROM item WHERE id = :id;
-- simple
ROLLBACK;
