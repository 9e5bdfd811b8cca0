from alembic import op
from sqlalchemy import Column, Text

revision, down_revision = "s2", "s1"


def upgrade():
    op.add_column("steps", Column("said", Text))
    op.execute("insert into steps values (2, 'two')")
