-- Changes a row of a table with a trigger.
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
UPDATE audited SET amount = amount + 1 WHERE id = :id;
