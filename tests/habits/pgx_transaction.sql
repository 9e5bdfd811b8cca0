-- A transaction with prepared statements and a savepoint.
-- by: pgx 5.12.0; tx.go, Conn.BeginTx and dbTx.Begin; transaction
-- protocol: prepared

\set id random(1, 10000)
-- simple
begin;
update item set amount = amount + 1 where id = :id;
-- simple
savepoint sp_1;
select amount from item where id = :id;
-- simple
release savepoint sp_1;
-- simple
commit;
