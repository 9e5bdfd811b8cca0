-- A transaction with an isolation level and a savepoint.
-- by: TypeORM 1.1.1; driver/postgres/PostgresQueryRunner.js, startTransaction; transaction
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
START TRANSACTION;
-- simple
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
UPDATE "item" SET "amount" = "amount" + 1 WHERE "id" = :id;
-- simple
SAVEPOINT typeorm_1;
SELECT "item"."amount" AS "item_amount" FROM "item" "item" WHERE "item"."id" = :id;
-- simple
RELEASE SAVEPOINT typeorm_1;
-- simple
COMMIT;
