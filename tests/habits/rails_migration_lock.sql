-- Holds a session-level advisory lock during migrations.
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/postgresql_adapter.rb, get_advisory_lock; transaction
-- by: ecto_sql 3.14.0; lib/ecto/adapters/postgres.ex, advisory_lock (migration_lock: :pg_advisory_lock); transaction
-- protocol: simple

SELECT pg_try_advisory_lock(20230, :client_id);
BEGIN;
INSERT INTO note (item, body) VALUES (1, 'migrated');
COMMIT;
SELECT pg_advisory_unlock(20230, :client_id);
