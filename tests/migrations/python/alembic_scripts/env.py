"""How Alembic gets its connection: under an advisory lock of the session, with a transaction for each migration."""

from alembic import context
from sqlalchemy import URL, create_engine, text

import replica

url = URL.create(
    "postgresql+psycopg", "u", host="127.0.0.1", port=replica.PORT, database=replica.DATABASE,
    query={"application_name": replica.NAME},
)
with create_engine(url).connect() as connection:
    connection.execute(text("select pg_advisory_lock(:key)"), {"key": replica.LOCK})
    connection.commit()
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.execute(text("select pg_advisory_unlock(:key)"), {"key": replica.LOCK})
    connection.commit()
