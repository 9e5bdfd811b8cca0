-- Configures a new connection, and runs a mutation in a transaction that has the user's claims as a setting.
-- by: Hasura at 0ba3963; server/lib/pg-client/src/Database/PG/Query/Connection.hs, initPQConn; connect
-- by: Hasura at 4ca34ed; server/lib/pg-client/src/Database/PG/Query/Pool.hs, beginTx; transaction
-- by: Hasura at 045708f; server/src-lib/Hasura/Backends/Postgres/Connection/MonadTx.hs, setHeadersTx and setTraceContextInTx; transaction
-- protocol: prepared

-- [connect]
-- simple
SET client_encoding = 'UTF8'\;SET client_min_messages TO WARNING;

-- [each]
\set id random(1, 10000)
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
-- simple
SET LOCAL "hasura.tracecontext" = '{"trace_id":"4bf92f3577b34da6","span_id":"00f067aa0ba902b7"}';
-- simple
SET LOCAL "hasura.user" = '{"x-hasura-role":"user","x-hasura-user-id":"7"}';
INSERT INTO "public"."note" ("item", "body") VALUES (:id, 'hasura') RETURNING "id";
COMMIT;
