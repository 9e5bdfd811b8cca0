-- Sends timeouts in the startup packet.
-- by: node-postgres 8.23.1; pg/lib/client.js, Client.getStartupConf; connect
-- protocol: extended
-- startup: client_encoding=UTF8
-- startup: application_name=habits
-- startup: statement_timeout=5000
-- startup: lock_timeout=2000
-- startup: idle_in_transaction_session_timeout=60000

\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
