-- Holds a transaction-level advisory lock.
-- by: applications; their own code; transaction
-- protocol: simple

\set id random(1, 10000)
BEGIN;
SELECT pg_advisory_xact_lock(:id);
UPDATE item SET amount = amount + 1 WHERE id = :id;
COMMIT;
