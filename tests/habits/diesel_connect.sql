-- Configures a new connection by two statements, and checks it when it is taken from the application's pool.
-- by: Diesel 2.3.14; src/pg/connection/mod.rs, PgConnection.set_config_options; connect
-- by: Diesel 2.3.14; src/r2d2.rs, ConnectionManager.is_valid; checkout
-- by: diesel-async 0.9.2; src/pg/mod.rs, AsyncPgConnection.set_config_options; connect
-- protocol: prepared

-- [connect]
SET TIME ZONE 'UTC';
SET CLIENT_ENCODING TO 'UTF8';

-- [each]
\set id random(1, 10000)
SELECT 1;
SELECT "item"."name" FROM "item" WHERE ("item"."id" = :id);
