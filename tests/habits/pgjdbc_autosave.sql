-- Wraps each statement of a transaction in a savepoint (autosave=always).
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/QueryExecutorImpl.java, sendAutomaticSavepoint and releaseSavePoint; statement
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

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
-- described once
SELECT name FROM item WHERE id = :id;
-- simple
RELEASE SAVEPOINT PGJDBC_AUTOSAVE;
-- undescribed
-- one row
COMMIT;
