-- Holds a session-level advisory lock during migrations.
-- by: sqlx 0.9.0; sqlx-postgres src/migrate.rs, lock and unlock; transaction
-- protocol: extended
-- startup: DateStyle=ISO, MDY
-- startup: client_encoding=UTF8
-- startup: TimeZone=UTC
-- startup: extra_float_digits=2
-- not beside PgBouncer: the lock stays on a server that others have, and the client waits for it for ever

SELECT pg_advisory_lock(:client_id);
-- simple
BEGIN;
INSERT INTO note (item, body) VALUES (1, 'migrated');
-- simple
COMMIT;
SELECT pg_advisory_unlock(:client_id);
