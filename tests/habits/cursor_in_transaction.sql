-- Fetches rows from a cursor in a transaction.
-- by: applications; their own code; transaction
-- protocol: simple

BEGIN;
DECLARE few NO SCROLL CURSOR FOR SELECT id, name FROM item WHERE id BETWEEN 1 AND 20 ORDER BY id;
FETCH FORWARD 10 FROM few;
FETCH FORWARD 10 FROM few;
CLOSE few;
COMMIT;
