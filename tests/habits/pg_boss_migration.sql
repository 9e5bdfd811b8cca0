-- Runs a migration in a transaction with timeouts of its own and a transaction-level advisory lock.
-- by: pg-boss 10.4.2; src/plans.js, locked; transaction
-- protocol: simple
-- startup: client_encoding=UTF8

BEGIN\;
SET LOCAL lock_timeout = '30s'\;
SET LOCAL idle_in_transaction_session_timeout = '30s'\;
SELECT pg_advisory_xact_lock(('x' || encode(sha224((current_setting('server_version') || '.pgboss')::bytea), 'hex'))::bit(64)::bigint)\;
UPDATE item SET amount = amount + 1 WHERE id = 1\;
COMMIT;
