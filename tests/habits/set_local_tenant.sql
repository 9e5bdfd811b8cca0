-- Sets the tenant for row-level security locally in a transaction.
-- by: applications; their own code; transaction
-- protocol: simple

\set tenant random(1, 4)
BEGIN;
SET LOCAL app.tenant = 't:tenant';
SELECT count(*) FROM document WHERE id <= 10;
COMMIT;
