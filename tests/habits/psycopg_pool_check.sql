-- A connection is checked when it is taken out of the pool, by a query without a statement, and rolled back when it is given back within
-- a transaction. (pgbench sends no query that is empty, but one with a comment.)
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
