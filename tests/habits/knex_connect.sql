-- The server is asked who it is, and a connection gets the path of its schemas.
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
