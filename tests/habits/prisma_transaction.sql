-- A transaction of the driver adapter, with an isolation level.
-- by: Prisma 7.10.1; @prisma/adapter-pg dist/index.js, PrismaPgAdapter.startTransaction; transaction
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
BEGIN;
-- simple
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SELECT "public"."item"."name" FROM "public"."item" WHERE "public"."item"."id" = :id LIMIT 1;
-- simple
COMMIT;
