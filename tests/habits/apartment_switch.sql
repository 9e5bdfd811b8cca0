-- Switches to the schema of a tenant by SET search_path for a request, and back to the default schema after it.
-- by: Apartment at 052e29e; lib/apartment/adapters/postgresql_adapter.rb, PostgresqlSchemaAdapter.connect_to_new and reset; checkout
-- protocol: simple

\set tenant random(1, 4)
\set id random(1, 100)
SET search_path TO "tenant_:tenant", "public";
SELECT "item".* FROM "item" WHERE "item"."id" = :id LIMIT 1;
SET search_path TO "public";
