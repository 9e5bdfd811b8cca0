"""What the programs of Python's drivers share: where they go, and how they say what came of a case.

Always true: a case fails by an exception, and the others go on; each has a time limit of its own.
Not here: the cases.
"""

import datetime
import decimal
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
import uuid

PORT = int(os.environ["DRIVERS_PORT"])
SOCKETS = os.environ["DRIVERS_SOCKETS"]
DATABASE = os.environ["DRIVERS_DATABASE"]
SECRET = os.environ["DRIVERS_SECRET"]
# direct, transaction or session
MODE = os.environ["DRIVERS_MODE"]
CA = os.environ["DRIVERS_CA"]
CERT = os.environ["DRIVERS_CERT"]
KEY = os.environ["DRIVERS_KEY"]

BIG = 64 * 1024 * 1024
# In a connection string for libpq, or as keywords. Longer than a lock may be waited for.
CONNECT_MAX = 30
LOCK_MAX = "20s"


class Impossible(Exception):
    """The driver cannot do this, or it makes no sense here."""


class TooLong(BaseException):
    """The case has taken longer than it may."""


# A value of each of these types comes back as it was given.
VALUES = {
    "int4[]": [1, -2, None, 3],
    "text[]": ["a", 'quoted " and \\', "", f"types-{os.getpid()}"],
    "jsonb": {"a": [1, None, {"b": "c"}]},
    "numeric": decimal.Decimal("12345678901234567890.123456789"),
    "timestamptz": datetime.datetime(2026, 2, 28, 23, 59, 59, 999999, datetime.timezone.utc),
    "date": datetime.date(1, 1, 1),
    "bytea": bytes(range(256)),
    "uuid": uuid.UUID(int=0x1234),
    "float8": 1e-300,
    "bool": True,
    "interval": datetime.timedelta(days=3, seconds=4),
    "text": None,
}


def through_pooler():
    if MODE == "direct":
        raise Impossible("PostgreSQL has no console")


def tag(case, number=0):
    """What nobody else asks for, so that an answer tells whose it is."""
    return f"{case}-{os.getpid()}-{number}"


def expect(error_type, action):
    """The error of this type that the action ends with."""
    try:
        action()
    except error_type as error:
        return error
    raise AssertionError(f"no {error_type.__name__} came")


def is_running(mark):
    """Asks how many run now what has this mark in its text, but for the asker."""
    return ("select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() "
            f"and query like '%{mark}%'")


def await_running(ask, mark):
    """Waits until somebody does; `ask` is given a query and returns its value."""
    end = time.monotonic() + 20
    while ask(is_running(mark)) == 0:
        assert time.monotonic() < end, f"{mark} does not run"
        time.sleep(0.01)


def when_running(ask, mark, action):
    """Begins a thread that waits for the mark, and acts then."""
    def wait():
        await_running(ask, mark)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def together(count, one):
    """Runs so many at once; the case fails when one of them does, with all that they say."""
    failures = []

    def caught(number):
        try:
            one(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=caught, args=[number]) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    sum_up(failures)


def sum_up(failures):
    """Fails with all of these."""
    if failures:
        raise AssertionError("; ".join(f"{type(error).__name__}: {error}" for error in failures)) from failures[0]


def unnamed(found, wanted):
    """Checks an answer to a statement without a name that was prepared one round trip earlier; the answer, or the error's
    SQLSTATE.
    """
    if found == wanted:
        return
    raise AssertionError(f"a foreign answer: {found}, not {wanted}")


def say(line):
    print(" ".join(line.split()), flush=True)


def run(version, cases, call=lambda case: case()):
    """Runs the cases that are named on the command line."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, _too_long)
    say(f"version {version}")
    for name in sys.argv[1:]:
        say(f"begin {name}")
        signal.alarm(60)
        try:
            if name not in cases:
                raise LookupError("the program has no such case")
            call(cases[name])
            verdict = "pass"
        except Impossible as reason:
            verdict = f"none {reason}"
        except (Exception, TooLong) as error:
            place = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in place if frame.filename.endswith("_cases.py")]
            verdict = f"fail line {lines[-1:]}: {type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        say(f"case {name} {verdict}")


def _too_long(*_):
    raise TooLong("60 seconds have passed")
