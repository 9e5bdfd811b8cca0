-- Queries the server's version and settings on the first connection of an engine.
-- by: SQLAlchemy 2.1.9; sqlalchemy/dialects/postgresql/base.py, PGDialect.initialize; connect
-- protocol: simple

-- [connect]
BEGIN;
select pg_catalog.version();
select current_schema();
show standard_conforming_strings;
ROLLBACK;

-- [each]
\set id random(1, 10000)
BEGIN;
SELECT item.name FROM item WHERE item.id = :id;
COMMIT;
