-- Tables, schemas, roles and functions that the scripts in this folder use. A superuser runs it once; roles belong to the cluster and may exist already.
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, amount int NOT NULL);
INSERT INTO item SELECT i, 'item ' || i, 0 FROM generate_series(1, 10000) i;
CREATE TABLE note (id bigserial PRIMARY KEY, item int NOT NULL, body text NOT NULL);

-- Tenants: a schema for each, and a table with a row-level security policy that shows each tenant its own rows.
CREATE SCHEMA tenant_1;
CREATE SCHEMA tenant_2;
CREATE SCHEMA tenant_3;
CREATE SCHEMA tenant_4;
CREATE TABLE tenant_1.item AS SELECT id, 'first ' || id AS name, 1 AS amount FROM item WHERE id <= 100;
CREATE TABLE tenant_2.item AS SELECT id, 'second ' || id AS name, 2 AS amount FROM item WHERE id <= 100;
CREATE TABLE tenant_3.item AS SELECT id, 'third ' || id AS name, 3 AS amount FROM item WHERE id <= 100;
CREATE TABLE tenant_4.item AS SELECT id, 'fourth ' || id AS name, 4 AS amount FROM item WHERE id <= 100;
CREATE TABLE document (id int PRIMARY KEY, tenant text NOT NULL, body text NOT NULL);
INSERT INTO document SELECT i, 't' || i % 4 + 1, 'body ' || i FROM generate_series(1, 1000) i;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY document_tenant ON document USING (tenant = current_setting('app.tenant', true));

-- A function that does not change session state, one that changes a setting for its transaction, and a trigger.
CREATE FUNCTION amount_of(int) RETURNS int LANGUAGE plpgsql STABLE AS
    $$ BEGIN RETURN (SELECT amount FROM item WHERE id = $1); END $$;
CREATE FUNCTION become_tenant(text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('app.tenant', $1, true); END $$;
CREATE TABLE audited (id int PRIMARY KEY, amount int NOT NULL, changed int NOT NULL DEFAULT 0);
INSERT INTO audited SELECT i, 0 FROM generate_series(1, 10000) i;
CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.changed := OLD.changed + 1; RETURN NEW; END $$;
CREATE TRIGGER audited_change BEFORE UPDATE ON audited FOR EACH ROW EXECUTE PROCEDURE count_change();

-- The role that connects, and the roles to which requests switch.
DO $$
BEGIN
    CREATE ROLE habit_web;
    CREATE ROLE habit_app LOGIN;
    GRANT habit_web TO habit_app;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    -- Another database of this cluster has them made.
END
$$;
GRANT USAGE ON SCHEMA tenant_1, tenant_2, tenant_3, tenant_4 TO habit_app, habit_web;
GRANT ALL ON SCHEMA public TO habit_app;
GRANT ALL ON ALL TABLES IN SCHEMA public, tenant_1, tenant_2, tenant_3, tenant_4 TO habit_app, habit_web;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO habit_app, habit_web;
