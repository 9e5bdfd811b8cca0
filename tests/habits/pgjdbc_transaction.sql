-- Sends BEGIN in the packet of the transaction's first statement.
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/QueryExecutorImpl.java, sendQueryPreamble; transaction
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
-- described once
SELECT name FROM item WHERE id = :id;
-- undescribed
-- one row
COMMIT;
