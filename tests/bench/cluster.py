#!/usr/bin/python3
"""Three servers over one database against raw SQL on the same database, in turns; and what a hop costs.

  tests/bench/cluster.py [--seconds 5] [--rounds 3] [--partitions 16]

report16x10: 16 workers that report 10 tasks with each call and get the next 10. pgraw: 16 clients
that claim a row and move it, each in a transaction of its own. unary64: 64 callers of Transition.
Of each the median of the rounds; CPU and WAL are the database's, by transition."""
import argparse
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import grpc  # noqa: E402

import postgres  # noqa: E402
from cluster_crew import new_servers, owner_among  # noqa: E402
from stubs import v1, v1_grpc  # noqa: E402
from support import Server, duration, open_channel  # noqa: E402

LOOP = """\
id: turn
nodes:
  work: {start: true, transitions: {again: work, ok: done}}
  done: {final: true}
"""
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


def work(address, seconds, batch, results):
    runner = v1_grpc.RunnerServiceStub(open_channel(address))
    next_tasks = v1.ReadyRequest(namespace="default", machine="turn", max_tasks=batch)
    next_tasks.wait.CopyFrom(duration(1))
    done, end = 0, time.monotonic() + seconds
    reports = []
    while time.monotonic() < end:
        reply = runner.Report(v1.ReportRequest(transitions=reports, next=next_tasks), timeout=30)
        done += sum(not one.HasField("error") for one in reply.results)
        reports = [v1.TransitionRequest(namespace="default", instance=task.instance,
                                        transition="again", claim=task.claim)
                   for task in reply.tasks]
    runner.Report(v1.ReportRequest(transitions=reports), timeout=30)
    results.put(done)


def call(address, seconds, number, callers, results):
    runner = v1_grpc.RunnerServiceStub(open_channel(address))
    done, end = 0, time.monotonic() + seconds
    times = []
    calls = {}

    def one(which):
        request = v1.TransitionRequest(namespace="default", instance=f"u-{number}-{which}",
                                       transition="again")
        calls[runner.Transition.future(request, timeout=30)] = (which, time.monotonic())

    for which in range(callers):
        one(which)
    while time.monotonic() < end:
        for future in [future for future in calls if future.done()]:
            which, begin = calls.pop(future)
            future.result()
            times.append(time.monotonic() - begin)
            done += 1
            one(which)
        time.sleep(0.0005)
    for future in calls:
        future.result()
    results.put(done)


def begin_at(barrier, target, *args):
    barrier.wait()
    target(*args)


def together(target, many):
    """Each in a process of its own, which is no fork: that would share the channels of this one."""
    processes = multiprocessing.get_context("spawn")
    results, barrier = processes.Queue(), processes.Barrier(len(many))
    clients = [processes.Process(target=begin_at, args=(barrier, target, *args, results))
               for args in many]
    for one in clients:
        one.start()
    total = sum(results.get(timeout=120) for _ in clients)
    for one in clients:
        one.join()
    return total


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
        for first in range(0, 2_000, 500):
            space.call("StartBatch", v1.StartBatchRequest(starts=[
                v1.StartRequest(namespace="default", machine="turn", id=f"i-{n}")
                for n in range(first, first + 500)]))
        space.call("StartBatch", v1.StartBatchRequest(starts=[
            v1.StartRequest(namespace="default", machine="turn", id=f"u-{n}-{which}", hold=False)
            for n in range(4) for which in range(16)]))
        psql(database, RAW_SETUP)
        reports, unary, raws, wal = [], [], [], []
        for round in range(flags.rounds):
            lsn = psql(database, "select pg_current_wal_insert_lsn()")
            done = together(work, [(servers[n % 3].address, flags.seconds, 10) for n in range(16)])
            spent = psql(database, f"select pg_current_wal_insert_lsn() - '{lsn}'::pg_lsn")
            wal.append(float(spent) / max(done, 1))
            reports.append(done / flags.seconds)
            raws.append(raw(database, flags.seconds))
            done = together(call, [(servers[n % 3].address, flags.seconds, n, 16)
                                   for n in range(4)])
            unary.append(done / flags.seconds)
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
