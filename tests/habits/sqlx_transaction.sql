-- A transaction that the application abandons, and that the driver rolls back when the connection is used again.
-- by: sqlx 0.9.0; sqlx-postgres src/transaction.rs, PgTransactionManager.begin and start_rollback; transaction
-- protocol: prepared
-- startup: DateStyle=ISO, MDY
-- startup: client_encoding=UTF8
-- startup: TimeZone=UTC
-- startup: extra_float_digits=2

\set id random(1, 10000)
-- simple
BEGIN;
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
SAVEPOINT _sqlx_savepoint_1;
SELECT amount FROM item WHERE id = :id;
-- simple
RELEASE SAVEPOINT _sqlx_savepoint_1;
-- simple
-- ahead
ROLLBACK;
SELECT name FROM item WHERE id = :id;
