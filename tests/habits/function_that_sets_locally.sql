-- A function is called that sets something for its transaction.
-- by: applications; their own code; transaction
-- protocol: simple

\set tenant random(1, 4)
BEGIN;
SELECT become_tenant('t:tenant');
SELECT count(*) FROM document WHERE id <= 10;
COMMIT;
