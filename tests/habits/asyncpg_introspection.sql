-- Looks up a type that the driver does not know, with JIT switched off for that query (shortened).
-- by: asyncpg 0.32.0; asyncpg/connection.py, Connection._introspect_types; connect
-- protocol: prepared
-- startup: client_encoding='utf-8'

-- [connect]
SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new;
SELECT t.oid, ns.nspname, t.typname, t.typtype, t.typelem, range_t.rngsubtype
FROM pg_catalog.pg_type AS t
JOIN pg_catalog.pg_namespace ns ON ns.oid = t.typnamespace
LEFT JOIN pg_range range_t ON t.oid = range_t.rngtypid
WHERE t.oid = any('{1009,3904,16}'::oid[])
ORDER BY t.oid;
SELECT set_config('jit', 'on', false);

-- [each]
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
