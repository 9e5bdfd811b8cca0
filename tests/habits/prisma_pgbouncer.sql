-- With pgbouncer=true a connection gets its path by a statement, and each request is a transaction that begins by forgetting what has been
-- prepared.
-- by: Prisma engines at 004522f; quaint/src/connector/postgres/native/mod.rs, PostgreSql.new and server_reset_query; transaction
-- protocol: extended
-- startup: client_encoding=UTF8

-- [connect]
-- simple
SET search_path = "public";

-- [each]
\set id random(1, 10000)
-- simple
BEGIN;
-- simple
DEALLOCATE ALL;
SELECT "public"."item"."name" FROM "public"."item" WHERE "public"."item"."id" = :id LIMIT 1;
-- simple
COMMIT;
