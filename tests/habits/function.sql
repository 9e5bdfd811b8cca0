-- Calls a function that does not change session state.
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
SELECT amount_of(:id);
