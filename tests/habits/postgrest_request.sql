-- Runs a request in a transaction that sets the user's claims and role locally.
-- by: PostgREST 16.2; src/library/PostgREST/Query/PreQuery.hs, txVarQuery; transaction
-- by: hasql at eca7603; library/Hasql/Connection/PqProcedures.hs, initConnection; connect
-- protocol: prepared

-- [connect]
-- simple
SET client_encoding = 'UTF8'\; SET client_min_messages TO WARNING;

-- [each]
\set id random(1, 10000)
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
select set_config('search_path', '"public"', true), set_config('role', 'habit_web', true), set_config('request.jwt.claims', '{"role":"habit_web"}', true), set_config('request.method', 'GET', true), set_config('request.path', '/item', true), set_config('request.headers', '{"accept":"*/*"}', true), set_config('request.cookies', '{}', true);
SELECT name FROM public.item WHERE id = :id;
COMMIT;
