-- Queries the server's version and the current schema on a new connection.
-- by: TypeORM 1.1.1; driver/postgres/PostgresDriver.js, connect; connect
-- protocol: extended
-- startup: client_encoding=UTF8

-- [connect]
-- simple
SELECT version();
-- simple
SELECT * FROM current_schema();

-- [each]
\set id random(1, 10000)
SELECT "item"."name" AS "item_name" FROM "item" "item" WHERE "item"."id" = :id LIMIT 1;
