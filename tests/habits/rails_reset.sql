-- Resets the session and configures it again.
-- by: Rails 8.1.3.1; activerecord/lib/active_record/connection_adapters/postgresql_adapter.rb, reset!; release
-- protocol: extended
-- startup: client_encoding=UTF8

\set id random(1, 10000)
-- simple
DISCARD ALL;
-- simple
SET client_min_messages TO 'warning';
-- simple
SET standard_conforming_strings = on;
-- simple
SET intervalstyle = iso_8601;
-- simple
SET SESSION timezone TO 'UTC';
SELECT "item".* FROM "item" WHERE "item"."id" = :id LIMIT 1;
