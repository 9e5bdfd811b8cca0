-- A transaction with an isolation level.
-- by: Sequelize 6.37.8; lib/dialects/abstract/query-generator/transaction.js, startTransactionQuery and setIsolationLevelQuery; transaction
-- protocol: simple
-- startup: client_encoding=UTF8

\set id random(1, 10000)
START TRANSACTION;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SELECT "id", "name" FROM "item" AS "item" WHERE "item"."id" = :id;
COMMIT;
