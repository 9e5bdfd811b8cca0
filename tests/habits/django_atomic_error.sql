-- A statement fails in a nested atomic() block, which rolls back to its savepoint.
-- by: Django 5.2.19; django/db/transaction.py, Atomic.__exit__; transaction
-- protocol: simple
-- startup: client_encoding=UTF8
-- not measured: one of its statements fails

\set id random(1, 10000)
BEGIN;
UPDATE "item" SET "amount" = "amount" + 1 WHERE "item"."id" = :id;
SAVEPOINT "s139_x1";
INSERT INTO "audited" ("id", "amount") VALUES (5, 0);
ROLLBACK TO SAVEPOINT "s139_x1";
RELEASE SAVEPOINT "s139_x1";
COMMIT;
