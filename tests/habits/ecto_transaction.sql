-- A transaction of Repo.transaction.
-- by: postgrex 0.22.2; lib/postgrex/protocol.ex, handle_begin; transaction
-- protocol: prepared

\set id random(1, 10000)
-- simple
BEGIN;
UPDATE "item" AS i0 SET "amount" = i0."amount" + 1 WHERE (i0."id" = :id);
INSERT INTO "note" ("item", "body") VALUES (:id, 'ecto') RETURNING "id";
-- simple
COMMIT;
