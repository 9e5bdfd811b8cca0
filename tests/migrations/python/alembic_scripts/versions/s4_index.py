from alembic import op

revision, down_revision = "s4", "s3"


def upgrade():
    op.create_index("steps_said", "steps", ["said"])
    op.execute("insert into steps values (4, 'four')")
