-- Discards the session state (DISCARD ALL) before the connection is used again.
-- by: applications; a reset query of their own; release
-- protocol: simple

DISCARD ALL;
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
