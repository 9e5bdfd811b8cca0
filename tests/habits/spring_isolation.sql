-- Sets the isolation level of a transaction (@Transactional(isolation = SERIALIZABLE)) for the session, and restores it afterwards.
-- by: Spring Framework 6.2.1; org/springframework/jdbc/datasource/DataSourceUtils.java, prepareConnectionForTransaction and resetConnectionAfterTransaction; transaction
-- by: pgjdbc 42.7.11; org/postgresql/jdbc/PgConnection.java, getTransactionIsolation and setTransactionIsolation; transaction
-- protocol: extended
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set id random(1, 10000)
SHOW TRANSACTION ISOLATION LEVEL;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
-- simple
-- ahead
BEGIN;
SELECT name FROM item WHERE id = :id;
COMMIT;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
