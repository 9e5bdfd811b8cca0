"""What the programs of Python's drivers share: where they go, and how they say what came of a case.

Always true: a case fails by an exception, and the others go on; each has a time limit of its own.
Not here: the cases.
"""

import faulthandler
import os
import signal
import sys
import traceback

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


class Impossible(Exception):
    """The driver cannot do this, or it makes no sense here."""


class Limit(Exception):
    """A limit of the pooler that is documented."""


class TooLong(BaseException):
    """The case has taken longer than it may."""


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
                raise Impossible("the program has no such case")
            call(cases[name])
            verdict = "pass"
        except Impossible as reason:
            verdict = f"none {reason}"
        except Limit as reason:
            verdict = f"limit {reason}"
        except (Exception, TooLong) as error:
            place = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in place if frame.filename.endswith("_cases.py")]
            verdict = f"fail line {lines[-1:]}: {type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        say(f"case {name} {verdict}")


def _too_long(*_):
    raise TooLong("60 seconds have passed")
