from alembic import op

revision, down_revision = "s3", "s2"


def upgrade():
    op.execute("insert into steps select 3, 'three' from pg_sleep(2)")
