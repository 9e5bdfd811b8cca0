-- Sends BEGIN in the packet of the transaction's first command.
-- by: Npgsql 10.0.3; src/Npgsql/NpgsqlTransaction.cs, Init; transaction
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
-- ahead
BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT name FROM item WHERE id = :id;
UPDATE item SET amount = amount + 1 WHERE id = :id;
-- simple
COMMIT;
