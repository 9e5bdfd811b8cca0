-- Sets the isolation level of a transaction (@Transactional(isolation = SERIALIZABLE)) for the session, and restores it afterwards.
-- by: Spring Framework 6.2.1; org/springframework/jdbc/datasource/DataSourceUtils.java, prepareConnectionForTransaction and resetConnectionAfterTransaction; transaction
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, getTransactionIsolation and setTransactionIsolation; transaction
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set id random(1, 10000)
-- unnamed
SHOW TRANSACTION ISOLATION LEVEL;
-- unnamed
-- undescribed
-- one row
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
-- ahead
-- unsynced
-- undescribed
BEGIN;
-- described once
SELECT name FROM item WHERE id = :id;
-- undescribed
-- one row
COMMIT;
-- unnamed
-- undescribed
-- one row
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
