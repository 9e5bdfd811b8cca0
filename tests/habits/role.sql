-- Runs a query as another role (SET ROLE, RESET ROLE).
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
SET ROLE habit_web;
SELECT name FROM item WHERE id = :id;
RESET ROLE;
