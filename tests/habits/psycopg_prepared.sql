-- Prepares a statement that has been executed five times; nested transaction() blocks are savepoints.
-- by: psycopg 3.3.9; psycopg/_preparing.py, PrepareManager.get; statement
-- by: psycopg 3.3.9; psycopg/transaction.py, BaseTransaction._get_enter_commands; transaction
-- protocol: prepared

\set id random(1, 10000)
-- simple
BEGIN;
SELECT name FROM item WHERE id = :id;
-- simple
SAVEPOINT "_pg3_1";
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
ROLLBACK TO "_pg3_1";
-- simple
RELEASE "_pg3_1";
-- simple
COMMIT;
