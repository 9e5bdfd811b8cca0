-- Reads rows from a WITH HOLD cursor: QuerySet.iterator() outside of atomic().
-- by: Django 5.2.19; django/db/backends/postgresql/base.py, DatabaseWrapper.create_cursor; statement
-- protocol: simple
-- startup: client_encoding=UTF8
-- not beside PgBouncer: the server may have the cursor of another client

DECLARE "_django_curs_139_sync_1" NO SCROLL CURSOR WITH HOLD FOR SELECT "item"."id", "item"."name" FROM "item" WHERE "item"."id" <= 30 ORDER BY "item"."id";
FETCH FORWARD 20 FROM "_django_curs_139_sync_1";
FETCH FORWARD 20 FROM "_django_curs_139_sync_1";
CLOSE "_django_curs_139_sync_1";
