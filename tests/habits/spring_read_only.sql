-- A read-only transaction (@Transactional(readOnly = true)).
-- by: Spring Framework 6.2.1; org/springframework/jdbc/datasource/DataSourceUtils.java, prepareConnectionForTransaction; transaction
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/QueryExecutorImpl.java, sendQueryPreamble; transaction
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin

\set id random(1, 10000)
-- ahead
-- unsynced
-- undescribed
BEGIN READ ONLY;
-- described once
SELECT name FROM item WHERE id = :id;
-- undescribed
-- one row
COMMIT;
