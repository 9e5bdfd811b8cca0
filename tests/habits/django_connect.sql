-- Sets the project's time zone on a new connection.
-- by: Django 5.2.19; django/db/backends/postgresql/base.py, DatabaseWrapper._configure_timezone; connect
-- protocol: simple
-- startup: client_encoding=UTF8

-- [connect]
SELECT set_config('TimeZone', 'America/Chicago', false);

-- [each]
\set id random(1, 10000)
SELECT "item"."id", "item"."name" FROM "item" WHERE "item"."id" = :id LIMIT 21;
