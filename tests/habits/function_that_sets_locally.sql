-- Calls a function that changes a setting for the transaction only.
-- by: applications; their own code; transaction
-- protocol: simple

\set tenant random(1, 4)
BEGIN;
SELECT become_tenant('t:tenant');
SELECT count(*) FROM document WHERE id <= 10;
COMMIT;
