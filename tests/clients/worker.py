"""The conformance suite's worker, in Python: does what the params of an instance say.

    worker.py LOG [JOBS]      appends a line to LOG for each handler that begins or is aborted
"""
import asyncio
import json
import logging
import os
import random
import sys
import time

import dfsmr

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
LOG = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def count(name, amount):
    if name == "reconnects":
        logging.info("counted %s", name)


def audit(task, call):
    note("audit", task)
    return call(task)


worker = dfsmr.Worker(jobs=int((sys.argv + ["16"])[2]), grace=1.0, count=count,
                      middleware={"audit": audit}, token_file=os.environ.get("TOKEN_FILE", ""))


def note(what, task):
    os.write(LOG, (json.dumps([what, task.instance, task.visit, task.attempt]) + "\n").encode())


def outcome(task):
    """Of a task that does not take time."""
    do = task.params.get("do", "ok")
    if do == "ok":
        return None
    if do == "name":
        return "other"
    if do == "output":
        return "ok", {"big": 9007199254740993, "got": task.params["got"]}
    if do == "object":
        return {"transition": "ok", "output": {"done": True}, "params": {"from": task.instance},
                "start": [{"machine": "job", "id": task.instance + "-more",
                           "params": {"do": "ok"}, "labels": {"by": "object"}}]}
    if do == "echo":
        return "ok", {"params": task.params, "input": task.input, "attempt": task.attempt,
                      "visit": task.visit, "phase": task.phase, "event": task.event,
                      "event_data": task.event_data, "dry_run": task.dry_run, "node": task.node,
                      "machine": task.machine, "instance": task.instance, "action": task.action,
                      "deadline": task.deadline is not None, "checkpoint": task.checkpoint}
    if do == "raise":
        raise RuntimeError("boom")
    if do == "retry":
        raise dfsmr.Retry("later", after=0.2)
    if do == "fail":
        raise dfsmr.Fail("never")
    if do == "nosuch" and task.attempt == 1:
        return "nosuch"
    if do == "nojson" and task.attempt == 1:
        return "ok", {"it": object()}
    if do == "checkpoint":
        if task.checkpoint is None:
            task.progress(0.5, checkpoint={"offset": 10}, note="half of it")
            os._exit(9)
        return "ok", {"checkpoint": task.checkpoint}
    return "ok"


def handle(task):
    note("begin", task)
    if task.params.get("do") == "sleep":
        if task.cancelled.wait(task.params["seconds"]):
            note("aborted", task)
            return "ok", {"dropped": True}
        return "ok"
    if task.params.get("do") == "busy":
        time.sleep(random.uniform(0, 0.02))
    return outcome(task)


async def handle_async(task):
    note("begin", task)
    if task.params.get("do") == "sleep":
        try:
            await asyncio.sleep(task.params["seconds"])
        except asyncio.CancelledError:
            note("aborted", task)
            raise
    return outcome(task)


def pass_on(task):
    """Work of machines/: any way through the machine that it may take."""
    note("begin", task)
    time.sleep(random.uniform(0, 0.02))
    return random.choice({"crawl": ["ok", "ok", "error"], "reserve": ["ok"], "charge": ["ok", "error"],
                          "reconcile": ["paid"]}.get(task.node, ["ok"]))


def hashed(task):
    note("begin", task)
    return "ok", {"sha256": "0", "bytes": 1}


for machine in ("job", "once", "hasty", "timed", "strict"):
    worker.handles(machine, "work")(handle)
for machine in ("async", "timed_async"):
    worker.handles(machine, "work")(handle_async)
worker.handles(action="try.*")(handle)
worker.handles("crawler", "crawl")(pass_on)
for node in ("reserve", "charge", "reconcile", "ship", "release"):
    worker.handles("order", node)(pass_on)
worker.handles("notification", "send")(pass_on)
worker.handles(action="sum.hash")(hashed)
worker.run()
