-- Sends output formats in the startup packet; the application's pool queries the isolation level.
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/ConnectionFactoryImpl.java, getParametersForStartup and runInitialQueries; connect
-- by: HikariCP 6.2.1; com/zaxxer/hikari/pool/PoolBase.java, checkDriverSupport; connect
-- protocol: prepared
-- startup: client_encoding=UTF8
-- startup: DateStyle=ISO
-- startup: TimeZone=Europe/Berlin
-- startup: search_path=tenant_1,public

-- [connect]
SET application_name = 'PostgreSQL JDBC Driver';
-- unnamed
/* nothing */;
-- unnamed
SHOW TRANSACTION ISOLATION LEVEL;

-- [each]
\set id random(1, 100)
-- described once
SELECT name FROM item WHERE id = :id;
