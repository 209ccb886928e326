"""Consumers as a user would write them, with nothing but the generated stubs."""
import json
import threading

import grpc

from stubs import v1, v1_grpc
from support import SOON, duration, eventually, result, state

CRAWLER = """\
id: crawler
params:
  type: object
  required: [url]
  properties: {url: {type: string}}
nodes:
  crawl:
    start: true
    transitions: {ok: store, error: cool_down}
  cool_down:
    delay: {initial: 10ms, factor: 2, max: 50ms}
    max_visits: 2
    transitions: {ok: crawl, dfsmr.exhausted: failed}
  store:
    transitions: {ok: success}
  success:
    final: true
  failed:
    final: true
    result: error
"""


def consume(address, namespace, handlers, stop):
    """Asks for work, does it, and reports it; goes on when the server was away."""
    with grpc.insecure_channel(address) as channel:
        runner = v1_grpc.RunnerServiceStub(channel)
        while not stop.is_set():
            ready = until_answered(runner.Ready, v1.ReadyRequest(
                namespace=namespace, machine="crawler", worker="python", max_tasks=5,
                wait=duration(0.5)), stop)
            for task in ready.tasks if ready else ():
                transition, params = handlers[task.node](
                    json.loads(task.instance_params or "{}"), json.loads(task.node_params or "{}"))
                until_answered(runner.Transition, v1.TransitionRequest(
                    namespace=namespace, instance=task.instance, claim=task.claim,
                    transition=transition, node_params=json.dumps(params)), stop)


def until_answered(call, request, stop):
    """Safe to repeat: the same report of the same claim gets the same answer."""
    while not stop.is_set():
        try:
            return call(request, timeout=10)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return None  # another was first
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            stop.wait(0.05)
    return None


class Crawl:
    """Pages that are found, pages that are never found, and what has been stored."""

    def __init__(self):
        self.stored = []
        self.lock = threading.Lock()

    def crawl(self, params, _):
        if params["url"].endswith("/missing"):
            return "error", {}
        return "ok", {"title": f"Title of {params['url']}"}

    def store(self, params, page):
        with self.lock:
            self.stored.append((params["url"], page["title"]))
        return "ok", {}

    def handlers(self):
        return {"crawl": self.crawl, "store": self.store}


def run_consumers(address, namespace, crawl, count):
    stop = threading.Event()
    threads = [threading.Thread(target=consume, daemon=True,
                                args=(address, namespace, crawl.handlers(), stop))
               for _ in range(count)]
    for thread in threads:
        thread.start()

    def finish():
        stop.set()
        for thread in threads:
            thread.join(15)
            assert not thread.is_alive()

    return finish


def urls():
    return [f"http://example.com/{i}" + ("/missing" if i % 10 == 0 else "") for i in range(60)]


def all_stopped(space):
    page = space.instances(page_size=1000)
    return {state(i) for i in page.instances} == {"STOPPED"} and page.instances


def check_results(space, crawl):
    for instance in space.instances(page_size=1000).instances:
        url = json.loads(instance.params)["url"]
        assert result(instance) == ("ERROR" if url.endswith("/missing") else "SUCCESS")
    found = [url for url in urls() if not url.endswith("/missing")]
    assert sorted(crawl.stored) == sorted((url, f"Title of {url}") for url in found)


def test_consumers_crawl_all_pages_and_give_up_on_those_that_are_missing(server, space):
    space.define(CRAWLER)
    crawl = Crawl()
    finish = run_consumers(server.address, space.name, crawl, 3)
    for url in urls():
        space.start("crawler", params={"url": url})
    assert eventually(lambda: all_stopped(space), within=20)
    finish()
    check_results(space, crawl)


def test_consumers_go_on_after_the_server_was_away(new_server):
    server = new_server().start()
    space = server.space("crawls")
    space.define(CRAWLER)
    crawl = Crawl()
    for url in urls():
        space.start("crawler", params={"url": url})
    finish = run_consumers(server.address, "crawls", crawl, 2)
    eventually(lambda: len(crawl.stored) > 5)
    server.restart()
    assert eventually(lambda: all_stopped(space), within=30)
    finish()
    stored = set(crawl.stored)
    crawl.stored = sorted(stored)  # a page may be stored again when its report was cut off
    check_results(space, crawl)


def test_a_consumer_of_one_call_reports_and_takes_in_one_round_trip(server, space):
    space.define(CRAWLER)
    for url in urls():
        space.start("crawler", params={"url": url})
    crawl = Crawl()
    handlers = crawl.handlers()
    ask = v1.ReadyRequest(namespace=space.name, machine="crawler", max_tasks=20,
                          wait=duration(0.3))
    reports, rounds = [], 0
    while True:
        reply = server.runner.Report(v1.ReportRequest(transitions=reports, next=ask), timeout=SOON)
        assert all(r.HasField("accepted") for r in reply.results)
        if not reply.tasks:
            break
        rounds += 1
        reports = []
        for task in reply.tasks:
            transition, params = handlers[task.node](json.loads(task.instance_params),
                                                     json.loads(task.node_params or "{}"))
            reports.append(v1.TransitionRequest(
                namespace=space.name, instance=task.instance, claim=task.claim,
                transition=transition, node_params=json.dumps(params)))
    assert all_stopped(space)
    check_results(space, crawl)
    assert rounds < 40


def test_a_consumer_of_the_stream_does_all_the_work(space):
    space.define(CRAWLER)
    crawl = Crawl()
    handlers = crawl.handlers()
    with space.work(machine="crawler", max_tasks=10) as work:
        for url in urls():
            space.start("crawler", params={"url": url})
        done = 0
        while not all_stopped(space):
            assert work.wait(lambda: len(work.tasks) > done), f"stuck after {done}: {work!r}"
            for task in work.tasks[done:]:
                transition, params = handlers[task.node](json.loads(task.instance_params),
                                                         json.loads(task.node_params or "{}"))
                work.send(transitions=[space.report_request(task, transition,
                                                            node_params=params)])
                done += 1
            work.await_results(done)
    check_results(space, crawl)
