-- Sends BEGIN before the transaction's first statement, and COMMIT on commit().
-- by: psycopg 3.3.9; psycopg/_connection_base.py, _start_query; transaction
-- protocol: extended

\set id random(1, 10000)
-- simple
BEGIN;
SELECT name FROM item WHERE id = :id;
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
COMMIT;
