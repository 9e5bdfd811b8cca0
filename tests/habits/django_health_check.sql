-- Checks a connection before a request uses it (CONN_HEALTH_CHECKS).
-- by: Django 5.2.19; django/db/backends/postgresql/base.py, DatabaseWrapper.is_usable; checkout
-- protocol: simple
-- startup: client_encoding=UTF8

\set id random(1, 10000)
SELECT 1;
SELECT "item"."id", "item"."name" FROM "item" WHERE "item"."id" = :id LIMIT 21;
