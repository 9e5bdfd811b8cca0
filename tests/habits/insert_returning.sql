-- Inserts a row and returns its generated number (INSERT ... RETURNING).
-- by: applications; their own code; statement
-- protocol: extended

\set id random(1, 10000)
INSERT INTO note (item, body) VALUES (:id, 'a note') RETURNING id;
