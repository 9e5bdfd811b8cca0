-- A statement gets a limit of time, and the limit is taken away again.
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
SET statement_timeout = 5000;
SELECT name FROM item WHERE id = :id;
SET statement_timeout = 0;
