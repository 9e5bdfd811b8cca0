-- A transaction with a savepoint that is rolled back.
-- by: Diesel 2.3.14; src/connection/transaction_manager.rs, AnsiTransactionManager.begin_transaction; transaction
-- protocol: prepared

-- [connect]
SET TIME ZONE 'UTC';
SET CLIENT_ENCODING TO 'UTF8';

-- [each]
\set id random(1, 10000)
-- simple
BEGIN;
UPDATE "item" SET "amount" = ("item"."amount" + 1) WHERE ("item"."id" = :id);
-- simple
SAVEPOINT diesel_savepoint_1;
UPDATE "item" SET "amount" = 0 WHERE ("item"."id" = :id);
-- simple
ROLLBACK TO SAVEPOINT diesel_savepoint_1;
-- simple
COMMIT;
