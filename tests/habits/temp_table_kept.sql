-- Gathers rows in a temporary table that is created once and kept by the session.
-- by: applications; their own code; connect
-- protocol: simple
-- keeps its server: a temporary table exists in one server session only
-- not beside PgBouncer: the table is missing on the next server

-- [connect]
CREATE TEMP TABLE gathered (id int, amount int);

-- [each]
\set id random(1, 10000)
TRUNCATE gathered;
INSERT INTO gathered VALUES (:id, 1);
UPDATE item SET amount = item.amount + gathered.amount FROM gathered WHERE item.id = gathered.id;
