-- A transaction with options, and a prepared statement whose types the driver looks up.
-- by: tokio-postgres 0.7.18; src/transaction_builder.rs, TransactionBuilder.start; transaction
-- by: tokio-postgres 0.7.18; src/prepare.rs, get_type; statement
-- protocol: prepared
-- startup: client_encoding=UTF8

-- [connect]
SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
WHERE t.oid = 3904;

-- [each]
\set id random(1, 10000)
-- simple
START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SELECT name FROM item WHERE id = :id;
-- simple
COMMIT;
