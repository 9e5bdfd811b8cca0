-- Sends output formats in the startup packet, and checks a connection by a Sync alone when it is taken from the driver's pool.
-- by: sqlx 0.9.0; sqlx-postgres src/connection/establish.rs, PgConnection.establish; connect
-- by: sqlx 0.9.0; sqlx-postgres src/connection/mod.rs, PgConnection.ping (test_before_acquire); checkout
-- protocol: prepared
-- startup: DateStyle=ISO, MDY
-- startup: client_encoding=UTF8
-- startup: TimeZone=UTC
-- startup: extra_float_digits=2

\set id random(1, 10000)
\startpipeline
\endpipeline
SELECT name FROM item WHERE id = :id;
