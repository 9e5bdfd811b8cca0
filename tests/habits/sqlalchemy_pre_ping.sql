-- Checks a connection when it is taken from the application's pool (pool_pre_ping), and rolls back when it is returned.
-- by: SQLAlchemy 2.1.9; sqlalchemy/dialects/postgresql/_psycopg_common.py, do_ping; checkout
-- by: SQLAlchemy 2.1.9; sqlalchemy/engine/default.py, DefaultDialect.do_rollback; release
-- protocol: simple

\set id random(1, 10000)
SELECT 1;
BEGIN;
SELECT item.name FROM item WHERE item.id = :id;
ROLLBACK;
