-- A function is called that touches no session.
-- by: applications; their own code; statement
-- protocol: simple

\set id random(1, 10000)
SELECT amount_of(:id);
