"""What the replicas of both tools share: where they go, when they start, and the lock that keeps the others out.

Neither tool has a lock of its own. What people put around them is an advisory lock of the session, as here.
"""

import os
import pathlib
import sys

PORT = int(os.environ["MIGRATIONS_PORT"])
DATABASE = os.environ["MIGRATIONS_DATABASE"]
NAME = os.environ["MIGRATIONS_NAME"]
LOCK = 20240501


def await_start():
    """Says that we are ready, and waits until all are."""
    pathlib.Path(os.environ["MIGRATIONS_READY"]).touch()
    sys.stdin.read()
