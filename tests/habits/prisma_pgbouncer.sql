-- With pgbouncer=true, sets the search_path by a statement, and runs each request in a transaction that begins with DEALLOCATE ALL.
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
