-- Reads the catalogs in a transaction with an empty search_path.
-- by: PostgREST 16.2; src/library/PostgREST/SchemaCache.hs, querySchemaCache; transaction
-- protocol: extended

BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
set local schema '';
SELECT c.oid::regclass::text, n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'item' ORDER BY 1;
COMMIT;
