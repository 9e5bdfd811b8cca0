-- Checks a connection that has been idle, with a query that is only a comment.
-- by: pgx 5.12.0; pgxpool/pool.go, Pool.Acquire, and pgconn/pgconn.go, PgConn.Ping; checkout
-- by: pgx 5.12.0; stdlib/sql.go, Conn.ResetSession; checkout
-- protocol: prepared

\set id random(1, 10000)
-- simple
/* ping */;
select name from item where id = :id;
