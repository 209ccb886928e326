"""Reads while others write: what one reply shows was true at one moment."""
import collections
import contextlib
import threading

from stubs import v1
from support import state, step_state, token_state

ROUNDS = 60

# No claim times out, however slow the machine is that runs the tests.
PATIENT = "timeout_strategy: fixed, timeout: 600.0"
JOB = f"""\
id: job
nodes:
  work: {{start: true, {PATIENT}, transitions: {{ok: done}}}}
  done: {{final: true}}
"""
LOOP = """\
id: loop
nodes:
  a: {start: true, transitions: {ok: b, end: done}}
  b: {transitions: {ok: a}}
  done: {final: true}
"""
STEPS = 60
FAN = "plan: fan\nflow:\n" + "".join(
    f"  - {{step: s{i}, action: t.a, {PATIENT}}}\n" for i in range(STEPS))


@contextlib.contextmanager
def writers(count, work):
    """Threads that call `work` again and again; what goes wrong in them fails the test."""
    stop, failures = threading.Event(), []

    def run():
        while not stop.is_set() and not failures:
            try:
                work()
            except BaseException as failure:
                failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]


def finish_some(space):
    for task in space.ready(max_tasks=3, wait=0.05):
        space.report(task)


def twice(page):
    seen = collections.defaultdict(list)
    for instance in page.instances:
        seen[instance.id].append(state(instance))
    return {id: states for id, states in seen.items() if len(states) > 1}


def walk(space, size):
    """All pages of a list."""
    pages, token = [], ""
    while not pages or token:
        pages.append(space.instances(page_size=size, page_token=token))
        token = pages[-1].next_page_token
    return pages


def test_a_list_shows_each_instance_once_while_they_finish(space):
    space.define(JOB)
    space.start_many("job", 300)

    def work():
        finish_some(space)
        space.start_many("job", 3)

    with writers(3, work):
        for _ in range(ROUNDS):
            assert twice(space.instances(page_size=500)) == {}


def test_a_walk_through_pages_shows_what_is_there_exactly_once(space):
    space.define(JOB)
    there = set(space.start_many("job", 200))

    def work():
        finish_some(space)
        space.start_many("job", 1)

    with writers(3, work):
        for _ in range(ROUNDS // 6):
            ids = collections.Counter(instance.id for page in walk(space, 20)
                                      for instance in page.instances)
            assert all(ids[id] == 1 for id in there)
            assert max(ids.values()) == 1


def test_a_history_has_neither_gaps_nor_repetitions_while_it_grows(space):
    space.define(LOOP)
    id = space.start("loop")

    with writers(2, lambda: space.transition(id, "ok")):
        for _ in range(ROUNDS):
            page = space.call("GetHistory", v1.GetHistoryRequest(
                namespace=space.name, id=id, page_size=1000))
            visits = [change.visit for change in page.changes]
            assert visits == list(range(1, len(visits) + 1))


def test_the_steps_of_a_plan_are_shown_as_its_tokens_stand(space):
    space.define(FAN)
    shown = {"READY": "READY", "CLAIMED": "RUNNING"}
    for _ in range(6):
        id = space.start("fan")
        with writers(3, lambda: finish_some(space)):
            while True:
                one = space.get(id, with_nodes=True)
                if state(one) == "STOPPED":
                    break
                tokens = {token.node: shown[token_state(token)] for token in one.tokens}
                steps = {step.path: step_state(step) for step in one.steps
                         if step_state(step) != "DONE"}
                assert tokens == steps
