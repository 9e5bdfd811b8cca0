-- A statement fails that is wrapped in a savepoint (autosave=always), and the driver rolls back to the savepoint.
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/QueryExecutorImpl.java, sendAutomaticSavepoint and rollbackIfRequired; statement
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin
-- not measured: one of its statements fails

\set id random(1, 10000)
-- ahead
-- unsynced
-- undescribed
BEGIN;
-- one row
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
-- ahead
SAVEPOINT PGJDBC_AUTOSAVE;
INSERT INTO audited (id, amount) VALUES (7, 0);
-- simple
ROLLBACK TO SAVEPOINT PGJDBC_AUTOSAVE;
-- undescribed
-- one row
COMMIT;
