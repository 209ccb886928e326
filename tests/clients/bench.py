"""Empty work on one stream, 64 tasks in hand: by the library, or by the plain stubs.

    bench.py library|plain SECONDS      prints how many visits were done a second

Both open the same stream, whose claims stay with its session for 30 s. The plain one does what can be
done with the stubs alone: one message of reports for each message of tasks, and nothing else.
"""
import os
import queue
import secrets
import sys
import threading
import time

JOBS = 64


def library(seconds):
    import dfsmr
    done = 0

    def count(name, amount):
        nonlocal done
        done += amount if name == "reported" else 0

    worker = dfsmr.Worker(jobs=JOBS, count=count)
    worker.handles("loop", "turn")(lambda task: "again")
    threading.Thread(target=worker.run, daemon=True).start()
    return rate(lambda: done, seconds)


def plain(seconds):
    import grpc
    from google.protobuf.duration_pb2 import Duration
    from dfsmr.v1 import runner_pb2 as v1, runner_pb2_grpc
    done = 0
    requests = queue.SimpleQueue()
    requests.put(v1.WorkRequest(open=v1.ReadyRequest(
        namespace=os.environ["DFSMR_NAMESPACE"], machine="loop", node="turn", max_tasks=JOBS,
        worker="plain", session=secrets.token_hex(16), keep_for=Duration(seconds=30))))
    stub = runner_pb2_grpc.RunnerServiceStub(grpc.insecure_channel(os.environ["DFSMR_SERVER"]))

    def work():
        nonlocal done
        for response in stub.Work(iter(requests.get, None)):
            done += len(response.results)
            if response.tasks:
                requests.put(v1.WorkRequest(transitions=[
                    v1.TransitionRequest(instance=task.instance, claim=task.claim,
                                         transition="again") for task in response.tasks]))

    threading.Thread(target=work, daemon=True).start()
    return rate(lambda: done, seconds)


def rate(done, seconds):
    while done() < 200:
        time.sleep(0.01)
    first, began = done(), time.monotonic()
    time.sleep(seconds)
    return (done() - first) / (time.monotonic() - began)


print(round(({"library": library, "plain": plain}[sys.argv[1]])(float(sys.argv[2]))), flush=True)
os._exit(0)
