"""Every machine in machines/ is loaded, and run by its consumers as its comments say."""
import collections
import contextlib
import functools
import http.server
import json
import os
import pathlib
import socketserver
import sqlite3
import subprocess
import threading

import pytest

from support import (BIN, CONSUMER, MACHINES, SOON, eventually, kind, only, result, state,
                     token_state)

RUN_BY_A_TEST = {"crawler", "order", "notification", "report"}
RUN_BY_TIME = {"intake", "intake.batch"}  # by test_time_examples.py


def finished(space, id, within=4 * SOON):
    """The instance, when it has stopped."""
    with space.watch(kinds=["FINISHED"], instance=id) as watch:
        watch.until(lambda change: True, within)
    return space.get(id)


def arrived(space, id, node, within=2 * SOON):
    """Waits until it has come to that node."""
    with space.watch(kinds=["TRANSITIONED"], instance=id) as watch:
        watch.until(lambda change: change.node == node, within)


def outputs(instance):
    return {node: json.loads(text) for node, text in instance.outputs.items()}


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SOON)


# All of them ------------------------------------------------------------------------------------


def test_every_machine_is_sound_and_every_one_is_run(space, dcli):
    dcli.ok("check", MACHINES)
    dcli.ok("define", MACHINES)
    assert {one.id for one in space.machines().machines
            if one.kind == "machine"} == RUN_BY_A_TEST | RUN_BY_TIME


# The crawler ------------------------------------------------------------------------------------

SITE = {
    "index.html": """<title> The
        index </title><a href="a.html">a</a> <a href='/deep/b.html?x=1#there'>b</a>
        <a href="http://elsewhere.invalid/">away</a> <a href="mailto:me@example.org">mail</a>""",
    "a.html": '<a href="index.html#top">up</a> <a href="data%20set.txt">data</a> <a>none</a>',
    "deep/b.html": '<a href="../a.html">a</a> <a href="missing.html">missing</a>',
    "data set.txt": '<a href="never.html">this is no HTML</a>',
}


class Pages(http.server.SimpleHTTPRequestHandler):
    """Keeps what was `asked` for; `failures` says how many more times a path fails."""

    def do_GET(self):
        path = self.path[1:]
        self.asked.append(path)
        if self.failures.get(path, 0) > 0:
            self.failures[path] -= 1
            return self.send_error(503)
        return super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    for name, text in SITE.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    handler = type("Handler", (Pages,), {"asked": [], "failures": {}})
    with serving(http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=tmp_path / "site"))) as server:
        handler.root = f"http://127.0.0.1:{server.server_address[1]}/"
        yield handler


def crawl(space, dcli, site, first, within=None):
    """Crawls from a page on until every page has stopped: path -> (instance, output)."""
    arguments = [site.root + path for path in (first, within) if path]
    subprocess.run([MACHINES / "crawler/crawl", *arguments], check=True, timeout=20,
                   stdout=subprocess.DEVNULL, env={**dcli.environment, **CONSUMER})

    with space.watch(kinds=["STARTED", "FINISHED"]) as watch:
        def ended():
            kinds = collections.Counter(map(kind, watch.changes))
            # What a page starts comes in the same commit as its end, but after it in the feed.
            return kinds["STARTED"] and kinds["STARTED"] == kinds["FINISHED"] and \
                not space.instances(machine="crawler", state="RUNNING").instances
        assert watch.wait(ended, 30), repr(watch)
    pages = [space.get(one.id) for one in space.instances(machine="crawler").instances]
    return {json.loads(page.params)["url"].removeprefix(site.root):
            (page, outputs(page).get("crawl")) for page in pages}


def test_the_crawler_fetches_every_page_of_a_site_once(space, dcli, define, work, site):
    define("crawler")
    work("crawler", "crawl", "--jobs", 2, "--", MACHINES / "crawler/crawl")
    pages = crawl(space, dcli, site, "index.html")
    assert {path: (output["status"], output["links"]) for path, (_, output) in pages.items()} == {
        "index.html": (200, 2), "a.html": (200, 2), "deep/b.html?x=1": (200, 2),
        "data%20set.txt": (200, 0), "deep/missing.html": (404, 0)}
    assert pages["index.html"][1]["title"] == "The index"
    assert pages["a.html"][1]["bytes"] == len(SITE["a.html"])
    assert {result(page) for page, _ in pages.values()} == {"SUCCESS"}
    assert sorted(site.asked) == sorted(pages)


def test_a_crawl_may_be_kept_within_a_folder(space, dcli, define, work, site):
    define("crawler")
    work("crawler", "crawl", "--", MACHINES / "crawler/crawl")
    pages = crawl(space, dcli, site, "index.html", "deep/")
    assert set(pages) == {"index.html", "deep/b.html?x=1", "deep/missing.html"}


def test_the_crawler_tries_again_what_failed_and_gives_up_in_the_end(
        space, dcli, define, work, site):
    define("crawler", instead={"initial: 1s": "initial: 20ms"})
    site.failures.update({"a.html": 2, "deep/b.html?x=1": 1000})
    work("crawler", "crawl", "--jobs", 2, "--", MACHINES / "crawler/crawl")
    pages = crawl(space, dcli, site, "index.html")
    assert result(pages["a.html"][0]) == "SUCCESS"
    assert result(pages["deep/b.html?x=1"][0]) == "ERROR"
    assert site.asked.count("a.html") == 3
    assert site.asked.count("deep/b.html?x=1") == 6  # and after five cool-downs no more
    changes = space.history(pages["deep/b.html?x=1"][0].id)
    assert any("503" in change.note for change in changes), changes


def test_the_demo_loses_nothing(tmp_path):
    pages = 130
    for number in range(pages):
        links = (f'<a href="{(number * step + 1) % pages}.html">{step}</a>' for step in (1, 2, 3))
        (tmp_path / f"{number}.html").write_text("\n".join(links))
    (tmp_path / "index.html").write_text('<a href="0.html">begin</a>')
    done = subprocess.run([MACHINES / "crawler/demo", "--bin", BIN, "--site", tmp_path], text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{pages + 1} pages can be reached from index.html, {pages + 1} were crawled: nothing " \
        "is lost" in done.stdout


# The order --------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path):
    """The environment of a shop with ten apples."""
    environment = {"SHOP": str(tmp_path / "shop.db")}
    subprocess.run([MACHINES / "order/shop", "stock", "apple", "10"], check=True,
                   env={**os.environ, **environment})
    return environment


def in_shop(shop, query):
    with contextlib.closing(sqlite3.connect(shop["SHOP"])) as db:
        return db.execute(query).fetchall()


def test_an_order_is_paid_and_shipped(space, dcli, define, work, shop):
    define("order")
    work("order", "--jobs", 2, "--", MACHINES / "order/shop", **shop)
    ids = [space.start("order", params={"item": "apple", "quantity": 4, "price": 1.5})
           for _ in range(3)]
    ended = [finished(space, id) for id in ids]
    assert sorted(result(one) for one in ended) == ["SUCCESS", "SUCCESS", "WARNING"]  # 10 apples
    assert in_shop(shop, "SELECT quantity FROM stock") == [(2,)]
    assert in_shop(shop, "SELECT count(*), sum(amount) FROM ledger") == [(2, 12.0)]
    assert sorted(outputs(one)["ship"]["parcel"] for one in ended if result(one) == "SUCCESS") == [
        1, 2]


@pytest.mark.parametrize("decision, outcome, left", [("approve", "SUCCESS", 7),
                                                     ("reject", "WARNING", 10)])
def test_a_large_order_waits_for_a_person(space, dcli, define, work, shop, decision, outcome, left):
    define("order")
    work("order", "--", MACHINES / "order/shop", **shop)
    id = space.start("order", params={"item": "apple", "quantity": 3, "price": 500})
    arrived(space, id, "approve")
    assert token_state(space.token(id)) == "WAITING"
    dcli.ok("transition", id, decision)
    assert result(finished(space, id)) == outcome
    assert in_shop(shop, "SELECT quantity FROM stock") == [(left,)]


@pytest.mark.parametrize("paid, outcome, left", [(True, "SUCCESS", 9), (False, "WARNING", 10)])
def test_a_payment_that_does_not_answer_is_looked_up(
        space, dcli, define, work, shop, paid, outcome, left):
    define("order", instead={"timeout: 30.0": "timeout: 0.3"})
    id = space.start("order", params={"item": "apple", "quantity": 1, "price": 2})
    dcli.ok("work", "order", "reserve", "--once", "--", MACHINES / "order/shop", environment=shop)
    task = space.take("order", "charge")  # by a worker that dies, before or after it took the money
    if paid:
        subprocess.run([MACHINES / "order/shop"], check=True, env={**os.environ, **shop}, text=True,
                       input=json.dumps({"instance": id, "node": "charge", "instanceParams":
                                         json.loads(task.instance_params)}))
    arrived(space, id, "reconcile")
    work("order", "--", MACHINES / "order/shop", **shop)
    assert result(finished(space, id)) == outcome
    assert in_shop(shop, "SELECT quantity FROM stock") == [(left,)]


# The notification -------------------------------------------------------------------------------


class Smtp(socketserver.StreamRequestHandler):
    """As much of a mail server as it takes; `says` are its answers to RCPT, `mails` what came."""

    def handle(self):
        self.say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line[:4].upper()
            if word == "DATA":
                self.say("354 go on")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                if self.server.breaks:
                    return
            self.say(self.server.says.pop(0) if word == "RCPT" and self.server.says else
                     "221 bye" if word == "QUIT" else "250 ok")

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def mail_server():
    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp)) as server:
        server.mails, server.says, server.breaks = [], [], False
        server.environment = {"SMTP": f"127.0.0.1:{server.server_address[1]}"}
        yield server


MAIL = {"to": "you@example.org", "subject": "It is söt", "text": "All is well.\n"}
SEND = ("notification", "send", "--", MACHINES / "notification/send")


def test_a_mail_is_sent(space, dcli, define, work, mail_server):
    define("notification")
    work(*SEND, **mail_server.environment)
    id = space.start("notification", params=MAIL)
    assert result(finished(space, id)) == "SUCCESS"
    mail = only(mail_server.mails)
    assert "To: you@example.org" in mail and f"<{id}@dfsmr>" in mail and "All is well." in mail


@pytest.mark.parametrize("says, outcome, mails, visits", [
    (["451 not now", "451 not now"], "SUCCESS", 1, 3), (["550 no such user"], "ERROR", 0, 1)])
def test_a_mail_that_was_not_taken_is_sent_later_or_never(
        space, dcli, define, work, mail_server, says, outcome, mails, visits):
    define("notification", instead={"initial: 10s": "initial: 10ms"})
    mail_server.says += says
    work(*SEND, **mail_server.environment)
    id = space.start("notification", params=MAIL)
    assert result(finished(space, id)) == outcome
    assert len(mail_server.mails) == mails
    assert len([one for one in space.walk(id) if one[0] == "send"]) == visits


def test_a_mail_that_may_have_been_sent_is_left_to_a_person(
        space, dcli, define, work, mail_server):
    define("notification")
    mail_server.breaks = True
    work(*SEND, **mail_server.environment)
    id = space.start("notification", params=MAIL)
    arrived(space, id, "in_doubt")
    assert len(mail_server.mails) == 1
    dcli.ok("transition", id, "sent")
    assert result(finished(space, id)) == "SUCCESS"


def test_a_mail_whose_worker_died_is_not_sent_by_another(space, dcli, define, work, mail_server,
                                                         tmp_path):
    define("notification")
    id = space.start("notification", params=MAIL)
    begun = tmp_path / "begun"  # from then on the task has reached its worker
    with dcli.background("work", "notification", "send", "--",
                         "sh", "-c", f"touch {begun}; sleep 5") as dying:
        eventually(begun.exists)
        dying.kill()
        dying.communicate()
    work(*SEND, **mail_server.environment)
    other = space.start("notification", params=MAIL)
    finished(space, other)  # there is a worker, and yet
    assert token_state(space.token(id)) == "CLAIMED"
    assert len(mail_server.mails) == 1
    dcli.ok("resume", id, "--force")
    assert result(finished(space, id)) == "SUCCESS"
    assert len(mail_server.mails) == 2


# The report -------------------------------------------------------------------------------------

LOG = """\
10.0.0.1 - - [30/Jan/2026:23:59:59 +0000] "GET /old HTTP/1.1" 200 10 "-" "curl"
10.0.0.1 - - [31/Jan/2026:00:00:00 +0000] "GET /<new> HTTP/1.1" 200 1000 "-" "curl"
10.0.0.2 - ann [31/Jan/2026:12:00:00 +0000] "GET /<new> HTTP/1.1" 200 500 "-" "curl"
10.0.0.3 - - [31/Jan/2026:23:59:59 +0000] "POST /form HTTP/1.1" 304 - "-" "curl"
this is no line of a log
"""


@pytest.fixture
def nightly(tmp_path, space):
    def start(day="2026-01-31"):
        return space.start("report", params={
            "day": day, "log": str(tmp_path / "access.log"),
            "target": str(tmp_path / "out" / f"{day}.html")})
    return start


def build(work, tmp_path):
    work("report", "--", MACHINES / "report/build", WORK=str(tmp_path))


def test_a_report_waits_for_its_log_and_for_its_disk(
        space, dcli, define, work, tmp_path, nightly):
    define("report", instead={"initial: 1s": "initial: 50ms"})
    build(work, tmp_path)
    id = nightly()
    arrived(space, id, "extract_later")
    (tmp_path / "access.log").write_text(LOG)
    arrived(space, id, "publish_later")
    (tmp_path / "out").mkdir()
    instance = finished(space, id)
    assert result(instance) == "SUCCESS"
    assert outputs(instance)["extract"] == {"requests": 3}
    assert outputs(instance)["aggregate"] == {"rows": 2, "bytes": 1500}
    page = pathlib.Path(outputs(instance)["publish"]["page"]).read_text()
    assert "3 requests on 2026-01-31" in page
    assert "<tr><td>/&lt;new&gt;<td>200<td>2<td>1500" in page


def test_a_report_of_an_empty_day_ends_with_a_warning(
        space, dcli, define, work, tmp_path, nightly):
    define("report")
    (tmp_path / "access.log").write_text(LOG)
    build(work, tmp_path)
    id = nightly("2026-02-01")
    assert result(finished(space, id)) == "WARNING"
    assert space.walk(id)[-1] == ("extract", "empty", "nothing")


def test_a_report_whose_log_never_comes_gives_up(space, dcli, define, work, tmp_path, nightly):
    define("report", instead={"initial: 1s": "initial: 1ms"})
    build(work, tmp_path)
    id = nightly()
    instance = finished(space, id)
    assert (state(instance), result(instance)) == ("STOPPED", "ERROR")
    attempts = [one for one in space.walk(id) if one[0] == "extract"]
    assert len(attempts) == 9  # the first, and one after each of eight delays
