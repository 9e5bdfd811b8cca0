-- All channels are listened to by one statement when a connection has been made again.
-- by: postgrex 0.22.2; lib/postgrex/notifications.ex, handle_connect; connect
-- protocol: simple

-- [connect]
DO $$BEGIN LISTEN "habit_one";LISTEN "habit_two"; END$$;

-- [each]
\set id random(1, 10000)
SELECT name FROM item WHERE id = :id;
