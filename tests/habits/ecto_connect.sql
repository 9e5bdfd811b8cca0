-- Reads the types of the database on a new connection (shortened), and checks a connection by a Sync alone.
-- by: postgrex 0.22.2; lib/postgrex/types.ex, bootstrap_query; connect
-- by: postgrex 0.22.2; lib/postgrex/protocol.ex, ping; checkout
-- protocol: prepared

-- [connect]
-- simple
SELECT t.oid, t.typname, t.typsend, t.typreceive, t.typoutput, t.typinput FROM pg_type AS t WHERE t.typrelid = 0 AND t.oid < 10000 ORDER BY t.oid;

-- [each]
\set id random(1, 10000)
\startpipeline
\endpipeline
SELECT i0."name" FROM "item" AS i0 WHERE (i0."id" = :id);
