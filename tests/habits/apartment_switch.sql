-- A request is served in the schema of its tenant, and leaves for the default one.
-- by: Apartment at 052e29e; lib/apartment/adapters/postgresql_adapter.rb, PostgresqlSchemaAdapter.connect_to_new and reset; checkout
-- protocol: simple

\set tenant random(1, 4)
\set id random(1, 100)
SET search_path TO "tenant_:tenant", "public";
SELECT "item".* FROM "item" WHERE "item"."id" = :id LIMIT 1;
SET search_path TO "public";
