#!/usr/bin/python3
"""Writers on several paths at once: longest gap, errors, lost, duplicates. A stand-in for `trunkline hatest`."""
import argparse, collections, json, threading, time, sys
import psycopg2
p = argparse.ArgumentParser()
p.add_argument("--path", action="append", required=True)
p.add_argument("--duration", type=float, required=True)
p.add_argument("--writers", type=int, default=2)
p.add_argument("--check", required=True)
p.add_argument("--json", action="store_true")
o = p.parse_args()
paths = dict(x.split("=", 1) for x in o.path)
def patient(conninfo, sql):
    end = time.time() + 60
    while True:
        try:
            c = psycopg2.connect(conninfo); c.autocommit = True
            q = c.cursor(); q.execute(sql)
            return q.fetchall() if q.description else None
        except psycopg2.Error:
            if time.time() > end: raise
            time.sleep(0.2)
patient(o.check, "DROP TABLE IF EXISTS ledger")
patient(o.check, "CREATE TABLE ledger (path text, writer int, seq int)")
stop = time.time() + o.duration
acks = collections.defaultdict(list); errors = collections.defaultdict(collections.Counter)
acked = collections.defaultdict(set); unknown = collections.defaultdict(set); failed = collections.defaultdict(set)
served = collections.defaultdict(collections.Counter)
def write(path, writer):
    c, seq = None, 0
    while time.time() < stop:
        if c is None:
            try:
                c = psycopg2.connect(paths[path]); c.autocommit = True
            except psycopg2.Error as e:
                errors[path]["connect"] += 1; time.sleep(0.1); continue
        seq += 1
        try:
            q = c.cursor()
            q.execute("INSERT INTO ledger VALUES (%s, %s, %s) RETURNING host(inet_server_addr())", (path, writer, seq))
            host = q.fetchone()[0]
            acks[path].append((time.time(), host)); acked[path].add((writer, seq)); served[path][host] += 1
        except psycopg2.Error as e:
            errors[path][e.pgcode or "broken"] += 1
            (failed if e.pgcode and not e.pgcode.startswith(("57P", "08")) else unknown)[path].add((writer, seq))
            if c.closed or not e.pgcode:
                try: c.close()
                except psycopg2.Error: pass
                c = None
        time.sleep(0.02)
threads = [threading.Thread(target=write, args=(n, w), daemon=True) for n in paths for w in range(o.writers)]
begun = time.time()
for t in threads: t.start()
for t in threads: t.join(max(0.1, stop + 15 - time.time()))
rows = patient(o.check, "SELECT path, writer, seq, count(*) FROM ledger GROUP BY 1, 2, 3")
out = {}
for n in paths:
    there = {(w, s): k for path, w, s, k in rows if path == n}
    times = [begun] + sorted(t for t, _ in acks[n]) + [stop]
    gap, at = max((b - a, a) for a, b in zip(times, times[1:]))
    out[n] = dict(acked=len(acked[n]), longest_gap_ms=round(gap * 1000), gap_at_s=round(at - begun, 2), errors=errors[n],
        unknown=len(unknown[n]), lost=len(acked[n] - set(there)), phantom=len(failed[n] & set(there)),
        duplicates=sum(k > 1 for k in there.values()), served=served[n])
print(json.dumps(out))
