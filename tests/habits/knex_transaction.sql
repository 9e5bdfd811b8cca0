-- A transaction with an isolation level and a savepoint.
-- by: knex 3.3.0; lib/dialects/postgres/execution/pg-transaction.js, begin; transaction
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
BEGIN TRANSACTION ISOLATION LEVEL repeatable read;
select "name" from "item" where "id" = :id;
-- simple
SAVEPOINT trx2;
select "amount" from "item" where "id" = :id;
-- simple
RELEASE SAVEPOINT trx2;
-- simple
COMMIT;
