from alembic import op
from sqlalchemy import Column, Integer

revision, down_revision = "s1", None


def upgrade():
    op.create_table("steps", Column("step", Integer, nullable=False))
    op.execute("insert into steps values (1)")
