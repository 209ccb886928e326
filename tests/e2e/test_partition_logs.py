"""Lines of operations whose instances live in several partitions, through one stream of an agent."""
from support import JOB, eventually
from test_cluster_logs import answered
from test_logs import Appending, batch, read, texts
from test_partitions import parted  # noqa: F401: a fixture


def tasks_of(space, count):
    """In several partitions."""
    space.define(JOB)
    for number in range(count):
        space.start("job", f"job-{number}")
    tasks = []
    eventually(lambda: tasks.extend(space.ready("job", max_tasks=count)) or len(tasks) == count)
    assert len({space.get(task.instance).partition for task in tasks}) > 2
    return tasks


def test_lines_of_all_partitions_are_taken_and_read_through_any_server(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    tasks = tasks_of(spaces[0], 12)
    append = Appending(spaces[1])
    assert append.send(*(batch(task, [f"of {task.instance}"]) for task in tasks)) == []
    strange = batch(tasks[0], ["x"], claim=tasks[1].claim)
    assert append.send(strange, batch(tasks[2], ["next"], first=2)) == [tasks[1].claim]
    for task in tasks:
        of = [f"of {task.instance}"] + (["next"] if task is tasks[2] else [])
        for space in spaces:
            assert eventually(lambda: texts(read(space, task.instance)) == of)
    append.close()


def test_lines_of_a_partition_whose_server_is_killed_are_taken_by_the_next(parted):  # noqa: F811
    servers = parted(3)
    space = servers[0].space("default")
    tasks = tasks_of(space, 18)
    append = Appending(space)
    append.send(*(batch(task, ["before"]) for task in tasks))
    servers[2].kill()
    for number in range(2, 6):
        append.put(*(batch(task, [f"line {number}"], first=number) for task in tasks))
    answered(append, append.count)
    for task in tasks:
        wanted = ["before"] + [f"line {number}" for number in range(2, 6)]
        # What was answered less than a second before may be gone with the server.
        eventually(lambda: texts(read(space, task.instance))[-4:] == wanted[-4:], 20.0)
    append.close()
