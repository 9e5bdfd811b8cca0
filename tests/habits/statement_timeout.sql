-- Sets a statement_timeout for one statement, and resets it afterwards.
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
SET statement_timeout = 5000;
SELECT name FROM item WHERE id = :id;
SET statement_timeout = 0;
