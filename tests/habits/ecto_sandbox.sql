-- Wraps a test in a transaction that is rolled back, and each statement that may fail in a savepoint: SAVEPOINT is sent before its Parse,
-- and RELEASE instead of its Sync.
-- by: ecto_sql 3.14.0; lib/ecto/adapters/sql/sandbox.ex, post_checkout; checkout
-- by: postgrex 0.22.2; lib/postgrex/protocol.ex, rebind (mode: :savepoint); statement
-- protocol: prepared

\set id random(1, 10000)
-- simple
BEGIN;
-- simple
-- ahead
SAVEPOINT postgrex_query;
-- ahead
-- unsynced
INSERT INTO "note" ("item", "body") VALUES (:id, 'sandbox') RETURNING "id";
-- simple
RELEASE SAVEPOINT postgrex_query;
-- simple
-- ahead
SAVEPOINT postgrex_query;
-- ahead
-- unsynced
SELECT n0."body" FROM "note" AS n0 WHERE (n0."item" = :id);
-- simple
RELEASE SAVEPOINT postgrex_query;
-- simple
ROLLBACK;
