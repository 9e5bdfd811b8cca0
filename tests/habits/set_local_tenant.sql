-- A transaction tells row-level security whose it is.
-- by: applications; their own code; transaction
-- protocol: simple

\set tenant random(1, 4)
BEGIN;
SET LOCAL app.tenant = 't:tenant';
SELECT count(*) FROM document WHERE id <= 10;
COMMIT;
