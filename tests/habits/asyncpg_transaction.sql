-- A transaction with prepared statements and a savepoint, and the reset by the driver's pool after it.
-- by: asyncpg 0.32.0; asyncpg/transaction.py, Transaction.start; transaction
-- by: asyncpg 0.32.0; asyncpg/connection.py, Connection.get_reset_query; release
-- protocol: prepared
-- startup: client_encoding='utf-8'

\set id random(1, 10000)
-- simple
BEGIN;
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
SAVEPOINT __asyncpg_savepoint_1__;
SELECT amount FROM item WHERE id = :id;
-- simple
RELEASE SAVEPOINT __asyncpg_savepoint_1__;
-- simple
COMMIT;
-- simple
SELECT pg_advisory_unlock_all()\;
CLOSE ALL\;
UNLISTEN *\;
RESET ALL;
