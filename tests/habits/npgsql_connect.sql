-- Reads the types of the database on the first connection (shortened).
-- by: Npgsql 10.0.3; src/Npgsql/PostgresDatabaseInfo.cs, LoadBackendTypes; connect
-- protocol: extended
-- startup: client_encoding=UTF8

-- [connect]
-- simple
SELECT version()\;
SELECT ns.nspname, typ.oid, typ.typname, typ.typtype, typ.typnotnull, coalesce(r.rngsubtype, typ.typelem, typ.typbasetype)
FROM pg_type AS typ
JOIN pg_namespace AS ns ON ns.oid = typ.typnamespace
LEFT JOIN pg_class AS cls ON cls.oid = typ.typrelid
LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
LEFT JOIN pg_range AS r ON r.rngtypid = typ.oid
WHERE typ.typtype IN ('b', 'r', 'm', 'e', 'd') AND ns.nspname = 'pg_catalog'
ORDER BY typ.oid\;
SELECT typ.oid, att.attname, att.atttypid
FROM pg_type AS typ
JOIN pg_class AS cls ON cls.oid = typ.typrelid
JOIN pg_attribute AS att ON att.attrelid = typ.typrelid
WHERE typ.typtype = 'c' AND cls.relkind = 'c' AND attnum > 0 AND NOT attisdropped
ORDER BY typ.oid, att.attnum\;
SELECT typ.oid, enumlabel FROM pg_enum JOIN pg_type AS typ ON typ.oid = enumtypid ORDER BY typ.oid, enumsortorder;

-- [each]
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
