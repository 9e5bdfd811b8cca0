-- Resets the session by reset().
-- by: psycopg2 2.9.13; psycopg/pqpath.c, pq_reset_locked; release
-- protocol: simple

\set id random(1, 10000)
BEGIN;
SELECT name FROM item WHERE id = :id;
ABORT;
RESET ALL;
SET SESSION AUTHORIZATION DEFAULT;
