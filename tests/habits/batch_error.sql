-- Sends the statements of a batch with one Sync; when one of them fails, PostgreSQL skips the rest.
-- by: pgjdbc 42.7.11; org/postgresql/core/v3/QueryExecutorImpl.java, execute (batches); statement
-- by: pgx 5.12.0; conn.go, Conn.SendBatch; statement
-- protocol: extended
-- not measured: one of its statements fails

\set id random(1, 10000)
\startpipeline
UPDATE item SET amount = amount + 1 WHERE id = :id;
SELECT set_config('app.tenant', 't1', false);
INSERT INTO audited (id, amount) VALUES (8, 0);
SELECT set_config('app.tenant', 't2', false);
\endpipeline
\startpipeline
SELECT amount FROM item WHERE id = :id;
SELECT set_config('app.tenant', 't3', false);
\endpipeline
SELECT current_setting('app.tenant', true);
