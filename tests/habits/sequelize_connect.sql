-- Configures a new connection by one query.
-- by: Sequelize 6.37.8; lib/dialects/postgres/connection-manager.js, connect; connect
-- protocol: simple
-- startup: client_encoding=UTF8

-- [connect]
SET client_min_messages TO warning\;SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE;
SHOW SERVER_VERSION;

-- [each]
\set id random(1, 10000)
SELECT "id", "name" FROM "item" AS "item" WHERE "item"."id" = :id;
