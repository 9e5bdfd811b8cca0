-- Configures a new connection, and reads the types of the database (shortened).
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/postgresql_adapter.rb, configure_connection; connect
-- by: Rails 6.1.7.10 (Debian 12); activerecord/lib/active_record/connection_adapters/postgresql_adapter.rb, configure_connection; connect
-- protocol: prepared
-- startup: client_encoding=UTF8

-- [connect]
-- simple
SET client_min_messages TO 'warning';
-- simple
SET standard_conforming_strings = on;
-- simple
SET intervalstyle = iso_8601;
-- simple
SET SESSION timezone TO 'UTC';
-- simple
SELECT t.oid, t.typname FROM pg_type as t WHERE t.typname IN ('int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'numeric', 'bool', 'timestamp', 'timestamptz') ORDER BY t.oid;
-- simple
SHOW search_path;
-- simple
SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype FROM pg_type as t LEFT JOIN pg_range as r ON oid = rngtypid WHERE t.typtype IN ('r', 'e', 'd') AND t.oid < 10000 ORDER BY t.oid;

-- [each]
\set id random(1, 10000)
SELECT "item".* FROM "item" WHERE "item"."id" = :id LIMIT 1;
