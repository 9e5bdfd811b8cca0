-- Reads the array types of the database on a new connection (shortened), and runs a transaction.
-- by: postgres.js 3.4.9; src/connection.js, fetchArrayTypes; connect
-- by: postgres.js 3.4.9; src/index.js, begin; transaction
-- protocol: prepared
-- startup: client_encoding=UTF8

-- [connect]
select a.typelem, a.oid from pg_catalog.pg_type a where a.typcategory = 'A' and a.oid < 10000 order by a.oid;

-- [each]
\set id random(1, 10000)
-- simple
begin;
select name from item where id = :id;
-- simple
commit;
