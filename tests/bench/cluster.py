#!/usr/bin/python3
"""Three servers over one database against raw SQL on the same database, in turns; and what a hop costs.

  tests/bench/cluster.py [--seconds 5] [--rounds 3] [--partitions 16]

report16x10 and unary64 as in load.cc. pgraw: 16 clients that claim a row and move it, each in a
transaction of its own. Of each the median of the rounds; WAL is the database's, by transition."""
import argparse
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import postgres  # noqa: E402
from cluster_crew import new_servers, owner_among  # noqa: E402
from stubs import v1  # noqa: E402
from support import Server  # noqa: E402

# No claim is to time out however slow the machine is: a benchmark of retries would be another one.
LOOP = """\
id: bench
defaults: {timeout_min: 60s, timeout_initial: 60s}
nodes:
  work: {start: true, transitions: {ok: work, end: done}}
  done: {final: true}
---
id: door
nodes:
  shut: {start: true, transitions: {ok: shut, end: gone}}
  gone: {final: true}
"""
LOAD = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "load"
RAW_SETUP = """
create table if not exists raw(id int primary key, state int not null, claim bigint not null);
create table if not exists moved(n bigserial primary key, id int not null, state int not null);
insert into raw select n, 0, 0 from generate_series(1, 20000) n on conflict do nothing;
"""
# A claim of a row that nobody else holds, then its transition and its record.
RAW = r"""
\set id random(1, 20000)
begin;
update raw set claim = claim + 1 where id = (select id from raw where id >= :id and state >= 0 limit 1 for update skip locked) returning id, claim \gset
commit;
begin;
update raw set state = state + 1 where id = :id;
insert into moved(id, state) values (:id, 1);
commit;
"""


def psql(database, text):
    ran = subprocess.run(["psql", "-h", str(database.folder), "-U", "tester", "-d", "postgres",
                          "-Atqc", text], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def drive(load, servers, seconds):
    """Transitions per second; build/bin/load has the callers."""
    ran = subprocess.run([LOAD, load, ",".join(server.address for server in servers), "--seconds",
                          str(seconds)], stdout=subprocess.PIPE, text=True, check=True)
    return float(ran.stdout)


def stock(space, count=2_000):
    for first in range(0, count, 500):
        space.call("StartBatch", v1.StartBatchRequest(starts=[
            v1.StartRequest(namespace="default", machine="bench", id=f"i-{n}")
            for n in range(first, first + 500)]))


def raw(database, seconds):
    script = database.folder / "raw.sql"
    script.write_text(RAW)
    ran = subprocess.run([postgres.program("pgbench"), "-h", str(database.folder), "-U",
                          "tester", "-n", "-c", "16", "-j", "2", "-T", str(seconds), "-f",
                          str(script), "postgres"], capture_output=True, text=True, check=True)
    return float([line for line in ran.stdout.splitlines() if "tps" in line][0].split()[2])


def median_call(server, instance, calls=400):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        server.runner.GetInstance(v1.GetInstanceRequest(namespace="default", id=instance),
                                  timeout=10)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=16)
    flags = parser.parse_args()
    database = postgres.Postgres()
    try:
        servers = new_servers(database.url(), "bench", 3, partitions=flags.partitions)
        space = servers[0].space("default")
        space.define(LOOP)
        stock(space)
        space.call("StartBatch", v1.StartBatchRequest(starts=[
            v1.StartRequest(namespace="default", machine="door", id=f"u-{n}") for n in range(64)]))
        psql(database, RAW_SETUP)
        reports, unary, raws, wal = [], [], [], []
        for round in range(flags.rounds):
            lsn = psql(database, "select pg_current_wal_insert_lsn()")
            reports.append(drive("report16x10", servers, flags.seconds))
            spent = psql(database, f"select pg_current_wal_insert_lsn() - '{lsn}'::pg_lsn")
            wal.append(float(spent) / (reports[-1] * flags.seconds))
            raws.append(raw(database, flags.seconds))
            unary.append(drive("unary64", servers, flags.seconds))
            print(f"round {round + 1}: report16x10 {reports[-1]:.0f}/s, pgraw {raws[-1]:.0f}/s, "
                  f"unary64 {unary[-1]:.0f}/s, {wal[-1]:.0f} B of WAL a transition", flush=True)
        base = statistics.median(raws)
        print(f"report16x10 is {statistics.median(reports) / base:.2f} x pgraw (bar: 5), unary64 "
              f"{statistics.median(unary) / base:.2f} x (bar: 1.2)")
        owner = owner_among(servers)
        other = next(one for one in servers if one is not owner)
        home = next(f"i-{n}" for n in range(2_000) if space.get(f"i-{n}").partition == 0)
        here, there = median_call(owner, home), median_call(other, home)
        print(f"GetInstance at the owner {here:.2f} ms, through another {there:.2f} ms: the hop "
              f"costs {there - here:.2f} ms (bar: 2)")
    finally:
        for server in list(Server.all):
            server.dispose()
        database.dispose()


if __name__ == "__main__":
    main()
