-- Queries the server's version on a new connection, and sets its search_path.
-- by: knex 3.3.0; lib/dialects/postgres/index.js, checkVersion and setSchemaSearchPath; connect
-- protocol: extended
-- startup: client_encoding=UTF8

-- [connect]
-- simple
select version();
-- simple
set search_path to "tenant_1","public";

-- [each]
\set id random(1, 100)
select "name" from "item" where "id" = :id;
