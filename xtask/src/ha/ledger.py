"""Writers on several paths at once: the longest gap, errors, lost and doubled writes.

Takes those options of `trunkline hatest` that the lab needs, and prints the same fields. Always true: a write whose
connection broke before the answer is unknown, not refused. Not here: faults, and the choice of the paths.
"""
import argparse
import collections
import json
import threading
import time

import psycopg2

EVERY_S = 0.02
WRITERS = 2
PATIENCE_S = 60


def patient(conninfo, statements):
    """Runs statements as soon as there is a server for them, and returns the rows of the last."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = psycopg2.connect(conninfo)
            connection.autocommit = True
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
        except psycopg2.Error:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


class Path:
    """What was seen on one path, by all its writers."""

    def __init__(self, name, conninfo):
        self.name, self.conninfo = name, conninfo
        self.acked_at, self.acked, self.refused, self.unknown = [], set(), set(), set()
        counts = collections.Counter
        self.errors, self.unknown_codes, self.connect_errors, self.members = counts(), counts(), counts(), counts()

    def write(self, writer, stop):
        connection, number = None, 0
        while time.monotonic() < stop:
            if connection is None:
                try:
                    connection = psycopg2.connect(self.conninfo)
                    connection.autocommit = True
                except psycopg2.Error as error:
                    self.connect_errors[error.pgcode or "none"] += 1
                    time.sleep(0.1)
                    continue
            number += 1
            try:
                cursor = connection.cursor()
                cursor.execute(
                    "INSERT INTO ledger VALUES (%s, %s, %s) RETURNING host(inet_server_addr())",
                    (self.name, writer, number),
                )
                self.members[cursor.fetchone()[0]] += 1
                self.acked_at.append(time.monotonic())
                self.acked.add((writer, number))
            except psycopg2.Error as error:
                is_broken = connection.closed or not error.pgcode
                (self.unknown if is_broken else self.refused).add((writer, number))
                (self.unknown_codes if is_broken else self.errors)[error.pgcode or "broken"] += 1
                if is_broken:
                    connection = None
            time.sleep(EVERY_S)

    def report(self, begun, stop, rows):
        there = {(writer, number): count for name, writer, number, count in rows if name == self.name}
        times = [begun, *sorted(self.acked_at), stop]
        gap, at = max((after - before, before) for before, after in zip(times, times[1:]))
        return {
            "name": self.name,
            "acked": len(self.acked),
            "refused": len(self.refused),
            "unknown": len(self.unknown),
            "lost": len(self.acked - there.keys()),
            "phantom": len(self.refused & there.keys()),
            "duplicate": sum(count > 1 for count in there.values()),
            "gap_ms": gap * 1000,
            "gap_from_s": at - begun,
            "errors": self.errors,
            "unknown_codes": self.unknown_codes,
            "connect_errors": self.connect_errors,
            "members": [{"address": address, "answers": count} for address, count in self.members.items()],
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", action="append", required=True)
    parser.add_argument("--duration", type=float, required=True)
    parser.add_argument("--verify", required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = "CREATE TABLE ledger (path text, writer int, number int)"
    patient(options.verify, ["DROP TABLE IF EXISTS ledger", table])
    paths = [Path(*text.split("=", 1)) for text in options.path]
    begun = time.monotonic()
    stop = begun + options.duration
    threads = [
        threading.Thread(target=path.write, args=(writer, stop), daemon=True)
        for path in paths
        for writer in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    # A write in flight may be answered for a while; a path that does not answer at all is not waited for.
    for thread in threads:
        thread.join(max(0.1, stop + 5 - time.monotonic()))
    rows = patient(options.verify, ["SELECT path, writer, number, count(*) FROM ledger GROUP BY 1, 2, 3"])
    print(json.dumps({"paths": [path.report(begun, stop, rows) for path in paths]}))


main()
