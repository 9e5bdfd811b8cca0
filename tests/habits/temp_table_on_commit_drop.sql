-- Gathers rows in a temporary table that is dropped on commit, and merges them from there.
-- by: applications; their own code; transaction
-- protocol: simple

\set id random(1, 10000)
BEGIN;
CREATE TEMP TABLE incoming (id int, amount int) ON COMMIT DROP;
INSERT INTO incoming VALUES (:id, 1);
UPDATE item SET amount = item.amount + incoming.amount FROM incoming WHERE item.id = incoming.id;
COMMIT;
