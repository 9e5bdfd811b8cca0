-- Sets the search_path to the schema of a tenant before each query.
-- by: django-tenants 4.0.1; django_tenants/postgresql_backend/base.py, DatabaseWrapper._handle_search_path; statement
-- protocol: simple

\set tenant random(1, 4)
\set id random(1, 100)
SET search_path = "tenant_:tenant","public";
SELECT name FROM item WHERE id = :id;
