-- Listens for schema changes on a connection that is kept for this.
-- by: PostgREST 16.2; src/library/PostgREST/AppState/Reload.hs, retryingListen; connect
-- protocol: simple

-- [connect]
LISTEN "pgrst";

-- [each]
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
