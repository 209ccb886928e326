"""The pages of the libraries are true: their programs do what they say."""
import http.server
import json
import os
import re
import signal
import subprocess
import threading

import pytest
from languages import REPOSITORY
from support import SOON, eventually, result


@pytest.fixture
def site(tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path / "site"))

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.html").write_text("ten bytes\n")
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


def programs(language):
    return re.findall(rf"(?ms)^```{language.fence}\n(.*?)^```", language.readme.read_text())


def begin(language, text, server, folder):
    folder.mkdir()
    return subprocess.Popen(
        language.save(text, folder), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **language.environment, "DFSMR_SERVER": server.address,
             "no_proxy": "127.0.0.1"})


def test_the_worker_and_the_client_of_the_page(language, new_server, site, tmp_path):
    server = new_server()
    space = server.space("default")
    space.define((REPOSITORY / "machines/crawler.fsm.yaml").read_text())
    found = space.start("crawler", params={"url": f"{site}/page.html"})
    missing = space.start("crawler", params={"url": f"{site}/missing.html"})
    worker_text, client_text, *_ = programs(language)
    worker = begin(language, worker_text, server, tmp_path / "worker")
    try:
        assert eventually(lambda: result(space.get(found)) == "SUCCESS", 6 * SOON)
        assert json.loads(space.get(found).outputs["crawl"]) == {"status": 200, "bytes": 10}
        assert eventually(lambda: space.walk(missing), SOON)[0] == ("crawl", "error", "cool_down")
        worker.send_signal(signal.SIGTERM)
        worker.wait(4 * SOON)
    finally:
        worker.kill()
        printed = worker.communicate()[0]
    assert worker.returncode == 0, printed

    space.start("crawler", "page-1", params={"url": "https://example.org/another"})
    client = begin(language, client_text, server, tmp_path / "client")
    printed = client.communicate(timeout=60)[0]
    assert client.returncode == 0, printed
    refused, *changes = printed.splitlines()
    assert "INSTANCE_EXISTS" in refused and changes[0].split()[1] == "crawl", printed


def test_errors_have_the_names_of_all_reasons(language):
    table = (REPOSITORY / "proto/README.md").read_text().split("## Reasons")[1].split("\n## ")[0]
    reasons = set(re.findall(r"\| `([A-Z_]+)` \| [a-z]", table))
    assert "STALE_CLAIM" in reasons and "NO_SUCH_TOKEN" in reasons
    assert reasons <= set(language.reasons())


def test_its_own_tests_pass(language):
    language.test()


def test_it_installs_from_its_folder(language, tmp_path):
    language.install(tmp_path)
