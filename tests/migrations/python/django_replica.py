"""One replica that migrates by Django: the migrations of `parts` under an advisory lock of the session."""

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection

import replica

settings.configure(
    INSTALLED_APPS=["parts"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": replica.PORT,
            "USER": "u",
            "NAME": replica.DATABASE,
            "OPTIONS": {"application_name": replica.NAME},
        }
    },
)
django.setup()
replica.await_start()
with connection.cursor() as cursor:
    cursor.execute("select pg_advisory_lock(%s)", [replica.LOCK])
    call_command("migrate", verbosity=0)
    cursor.execute("select pg_advisory_unlock(%s)", [replica.LOCK])
