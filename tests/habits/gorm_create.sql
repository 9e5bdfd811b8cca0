-- Creates a record in a transaction, and nested transactions as savepoints.
-- by: GORM 1.31.2; callbacks/transaction.go, BeginTransaction; transaction
-- by: GORM driver for PostgreSQL 1.6.3; postgres.go, Dialector.SavePoint; transaction
-- protocol: prepared

\set id random(1, 10000)
-- simple
begin;
INSERT INTO "note" ("item","body") VALUES (:id,'gorm') RETURNING "id";
SAVEPOINT sp1;
UPDATE "item" SET "amount"=amount + 1 WHERE "id" = :id;
ROLLBACK TO SAVEPOINT sp1;
-- simple
commit;
