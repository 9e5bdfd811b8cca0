-- Checks a connection by an empty statement in a transaction.
-- by: SQLAlchemy 2.1.9; sqlalchemy/dialects/postgresql/asyncpg.py, AsyncAdapt_asyncpg_connection._async_ping; checkout
-- protocol: prepared
-- startup: client_encoding='utf-8'

\set id random(1, 10000)
-- simple
BEGIN;
/* nothing */;
-- simple
ROLLBACK;
-- simple
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT item.name FROM item WHERE item.id = :id;
-- simple
COMMIT;
