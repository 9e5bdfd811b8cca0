-- Checks a connection, and saves a record in a transaction with a savepoint.
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/postgresql_adapter.rb, active?; checkout
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/postgresql/database_statements.rb, begin_db_transaction; transaction
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/abstract/savepoints.rb, create_savepoint; transaction
-- protocol: prepared
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
/* nothing */;
-- simple
BEGIN;
UPDATE "item" SET "amount" = "amount" + 1 WHERE "item"."id" = :id;
-- simple
SAVEPOINT active_record_1;
INSERT INTO "note" ("item", "body") VALUES (:id, 'saved') RETURNING "id";
-- simple
RELEASE SAVEPOINT active_record_1;
-- simple
COMMIT;
