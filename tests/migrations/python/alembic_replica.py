"""One replica that migrates by Alembic, which finds `env.py` in its folder of scripts."""

import pathlib

from alembic import command
from alembic.config import Config

import psycopg  # noqa: F401: so that it is loaded before the start
import replica

config = Config()
config.set_main_option("script_location", str(pathlib.Path(__file__).parent / "alembic_scripts"))
replica.await_start()
command.upgrade(config, "head")
