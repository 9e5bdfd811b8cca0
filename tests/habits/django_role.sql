-- Switches to another role once for the whole connection (OPTIONS assume_role).
-- by: Django 5.2.19; django/db/backends/postgresql/base.py, DatabaseWrapper._configure_role; connect
-- protocol: simple
-- startup: client_encoding=UTF8

-- [connect]
SELECT set_config('TimeZone', 'America/Chicago', false);
SET ROLE "habit_web";

-- [each]
\set id random(1, 10000)
SELECT "item"."id", "item"."name" FROM "item" WHERE "item"."id" = :id LIMIT 21;
