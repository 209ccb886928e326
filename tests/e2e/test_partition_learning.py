"""What is learned of attempts, in a store of several partitions: it counts in all of them."""
import pytest

from support import SOON, eventually, now, seconds
from test_partitions import PARTITIONS, parted  # noqa: F401: a fixture
from test_timeouts import allowance, measured

BEHIND = 15.0  # seconds, of a percentile
BRAKED = """
id: braked
defaults: {timeout_strategy: fixed, timeout: 2.0}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""


@pytest.fixture
def spaces(parted):  # noqa: F811
    return [one.space("default") for one in parted(2)]


def start_some(space, machine, count, name="one"):
    for number in range(count):  # each is of a partition of its own name
        space.start(machine, f"{name}-{number}")


def take_some(space, machine, count):
    """So many tasks, of all partitions."""
    tasks = []

    def took():
        tasks.extend(space.ready(machine, max_tasks=count - len(tasks), wait=SOON))
        return len(tasks) == count
    eventually(took)
    return tasks


def allowances(space, count):
    """What so many claims of instances of all partitions are given; they are given back."""
    began = now()
    tasks = take_some(space, "measured", count)
    for task in tasks:
        space.relinquish(task.instance, task.claim)
    return [allowance(task, began) for task in tasks]


def test_a_timeout_follows_from_the_attempts_of_all_partitions(spaces):
    spaces[0].define(measured())
    some = 5 * PARTITIONS  # too few of each for a percentile
    start_some(spaces[0], "measured", some)
    for task in take_some(spaces[1], "measured", some):
        spaces[1].report(task)

    def learned():
        stats = [space.machine("measured").nodes[0].stats for space in spaces]
        return all(one.HasField("p95") and seconds(one.timeout_now) < 20 for one in stats)
    eventually(learned, BEHIND)
    start_some(spaces[0], "measured", 2 * PARTITIONS, "late")
    eventually(lambda: max(allowances(spaces[0], 2 * PARTITIONS)) < 20, BEHIND)


def test_a_breaker_opens_because_of_the_retries_of_all_partitions_and_tells_it_once(spaces):
    spaces[0].define(BRAKED)
    start_some(spaces[0], "braked", 40)
    take_some(spaces[1], "braked", 40)
    spaces[0].await_changes("TIMED_OUT", 40, machine="braked")
    take_some(spaces[1], "braked", 40)
    eventually(lambda: all(space.machine("braked").stats.breaker == "open" for space in spaces))
    assert spaces[0].machine("braked").stats.retry_rate >= 0.5
    spaces[0].await_changes("TIMED_OUT", 80, machine="braked")
    began = now()
    tries = []
    while now() < began + 6:
        tries += spaces[1].ready("braked", max_tasks=40, wait=0.5)
    assert 3 <= len(tries) <= 7 + PARTITIONS, "retries are handed out one a second"
    opened = spaces[0].changes(kinds=["BREAKER_OPENED"])[0]
    assert [change.machine for change in opened] == ["braked"]
