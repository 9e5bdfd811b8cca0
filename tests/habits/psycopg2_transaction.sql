-- Sends BEGIN before the transaction's first statement, with the isolation level configured for the connection.
-- by: psycopg2 2.9.13; psycopg/pqpath.c, pq_begin_locked; transaction
-- protocol: simple

\set id random(1, 10000)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT name FROM item WHERE id = :id;
COMMIT;
