-- A statement fails in a transaction, which rollback() ends; the driver's pool sends it for applications that have not.
-- by: psycopg 3.3.9; psycopg/_connection_base.py, _rollback_gen; transaction
-- by: psycopg_pool 3.3.3; psycopg_pool/pool.py, ConnectionPool._reset_connection; release
-- protocol: prepared
-- not measured: one of its statements fails

\set id random(1, 10000)
-- simple
BEGIN;
UPDATE item SET amount = amount + 1 WHERE id = :id;
INSERT INTO audited (id, amount) VALUES (6, 0);
SELECT name FROM item WHERE id = :id;
-- simple
ROLLBACK;
SELECT amount FROM item WHERE id = :id;
