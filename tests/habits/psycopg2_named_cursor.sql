-- Reads rows from a named (server-side) cursor.
-- by: psycopg2 2.9.13; psycopg/cursor_type.c, psyco_curs_execute; statement
-- protocol: simple

BEGIN;
DECLARE "rows" CURSOR WITHOUT HOLD FOR SELECT id, name FROM item WHERE id BETWEEN 1 AND 20 ORDER BY id;
FETCH FORWARD 10 FROM "rows";
FETCH FORWARD ALL FROM "rows";
CLOSE "rows";
COMMIT;
