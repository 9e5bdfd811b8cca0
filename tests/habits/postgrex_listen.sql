-- Listens to all channels by one statement after a reconnect.
-- by: postgrex 0.22.2; lib/postgrex/notifications.ex, handle_connect; connect
-- protocol: simple

-- [connect]
DO $$BEGIN LISTEN "habit_one";LISTEN "habit_two"; END$$;

-- [each]
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
