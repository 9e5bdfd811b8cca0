-- Sets another isolation level for the session, and restores the default when the connection is returned to the application's pool.
-- by: SQLAlchemy 2.1.9; sqlalchemy/dialects/postgresql/base.py, PGDialect.set_isolation_level; checkout
-- by: SQLAlchemy 2.1.9; sqlalchemy/engine/default.py, DefaultDialect.reset_isolation_level; release
-- protocol: simple

\set id random(1, 10000)
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
BEGIN;
show transaction isolation level;
SELECT item.name FROM item WHERE item.id = :id;
COMMIT;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
