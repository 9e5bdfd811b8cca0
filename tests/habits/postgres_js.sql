-- The types of arrays are read when a connection is made, and a transaction begins (what is asked for, in fewer words).
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
