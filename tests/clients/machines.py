"""The machines of the suite: `work` nodes that do what the params say, and those of machines/."""
from support import MACHINES

JOB = """\
id: job
nodes:
  work: {start: true, timeout_initial: 5s, transitions: {ok: done, other: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
ASYNC = JOB.replace("id: job", "id: async")
ONCE = """\
id: once
nodes:
  work: {start: true, timeout: 0.0, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
HASTY = """\
id: hasty
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 0.6, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
TIMED = HASTY.replace("id: hasty", "id: timed").replace("timeout: 0.6,", "timeout: 5.0, run_timeout: 400ms,")
TIMED_ASYNC = TIMED.replace("id: timed", "id: timed_async")
STRICT = """\
id: strict
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""
TRYING = """\
action: try.it
retry: {limit: 3, delay: 10ms}
---
action: try.audited
use: [audit]
---
action: try.unknown
use: [nobody]
---
plan: trying
flow:
  - {step: it, action: try.it, input: {n: 7}}
---
plan: audited
flow:
  - {step: it, action: try.audited}
---
plan: unknown
flow:
  - {step: it, action: try.unknown}
"""
OURS = [JOB, ASYNC, ONCE, HASTY, TIMED, TIMED_ASYNC, STRICT, TRYING]


def theirs():
    """Of machines/; what waits for a long time there waits briefly here."""
    def load(name, *instead):
        text = next(MACHINES.glob(f"{name}.*.yaml")).read_text()
        for old, new in instead:
            assert old in text
            text = text.replace(old, new)
        return text

    return [load("crawler", ("initial: 1s", "initial: 20ms"), ("initial: 5s", "initial: 3s")),
            load("order", ("timeout: 30.0", "timeout: 3.0"),
                 ("nodes:\n", "defaults: {timeout_initial: 3s}\nnodes:\n")),
            load("notification"),
            load("checksums", ("action: sum.hash\ndescription", "action: sum.hash\ntimeout_initial: 3s\ndescription"))]
