-- Nested atomic() blocks: the inner one is a savepoint.
-- by: Django 5.2.19; django/db/transaction.py, Atomic.__enter__; transaction
-- protocol: simple
-- startup: client_encoding=UTF8

\set id random(1, 10000)
BEGIN;
UPDATE "item" SET "amount" = "amount" + 1 WHERE "item"."id" = :id;
SAVEPOINT "s139_x1";
UPDATE "item" SET "amount" = "amount" + 1 WHERE "item"."id" = :id;
RELEASE SAVEPOINT "s139_x1";
SAVEPOINT "s139_x2";
UPDATE "item" SET "amount" = 0 WHERE "item"."id" = :id;
ROLLBACK TO SAVEPOINT "s139_x2";
RELEASE SAVEPOINT "s139_x2";
COMMIT;
