#!/usr/bin/python3
"""What partitions cost one server that has all of them, with the database beside it.

  tests/bench/partitions.py [--partitions 1,16,64,256] [--seconds 5]

Of each number: how long the first start takes until all are served, and the next; what the process
has of memory and threads, and takes of a core when nothing happens; the connections that the
database has; and what report16x10 does then (as in load.cc)."""
import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import grpc  # noqa: E402

import postgres  # noqa: E402
import usage  # noqa: E402
from cluster import LOOP, drive, psql, stock  # noqa: E402
from stubs import cluster  # noqa: E402
from support import CALL, Server, eventually  # noqa: E402

PATIENCE = 300.0  # seconds until all are served


def all_served(server, count):
    try:
        seen = server.clusters.GetCluster(cluster.GetClusterRequest(), timeout=CALL)
    except grpc.RpcError:
        return False
    states = [one.state for one in seen.partitions]
    return states.count(cluster.Partition.SERVING) == count


def start(server, count):
    begin = time.monotonic()
    server.start()
    eventually(lambda: all_served(server, count), PATIENCE)
    return time.monotonic() - begin


def measure(database, count, seconds):
    server = Server(None, "--store", database.url(), "--store-schema", f"p{count}", "--partitions",
                    str(count))
    first = start(server, count)
    space = server.space("default")
    space.define(LOOP)
    stock(space)
    done = drive("report16x10", [server], seconds)
    server.stop()
    again = start(server, count)
    pid = server.process.pid
    time.sleep(3 * seconds)  # what was under way comes to its end
    begin = usage.cpu(pid)
    time.sleep(seconds)
    idle = (usage.cpu(pid) - begin) / seconds
    connections = psql(database, "select count(*) from pg_stat_activity where usename = 'tester'")
    print(f"| {count} | {first:.1f} s | {again:.1f} s | {usage.resident(pid) / 2**20:.0f} MiB | "
          f"{usage.threads(pid)} | {100 * idle:.1f} % | {int(connections) - 1} | "
          f"{done:.0f}/s |", flush=True)
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="1,16,64,256")
    parser.add_argument("--seconds", type=int, default=5)
    flags = parser.parse_args()
    database = postgres.Postgres()
    print("| partitions | first start | next start | memory | threads | of a core, idle | "
          "connections | report16x10 |")
    try:
        for count in flags.partitions.split(","):
            measure(database, int(count), flags.seconds)
    finally:
        for server in list(Server.all):
            server.dispose()
        database.dispose()


if __name__ == "__main__":
    main()
