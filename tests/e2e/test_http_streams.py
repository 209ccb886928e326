"""Streams over HTTP: Connect's envelopes and server-sent events; TLS; webhooks; the OpenAPI document."""
import gzip
import hashlib
import http.client
import json
import ssl
import struct
import time
import urllib.parse

import pytest

from certificates import Authority
from stubs import v1
from support import CALL, JOB, SOON, eventually, fresh_name
from web import JSON, Door, Raw, refusal

CHANGES = "/dfsmr.v1.RunnerService/Changes"
STREAM = {"content-type": "application/connect+json"}


@pytest.fixture
def there(web_server):
    door = Door(web_server)
    door.namespace = fresh_name("streams")
    door.ok("Define", {"namespace": door.namespace, "source": JOB})
    return door


def envelope(message, flags=0):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def take(response):
    """The next envelope: its flags and JSON."""
    flags, size = struct.unpack(">BI", response.read(5))
    return flags, json.loads(response.read(size))


def ended(response):
    """What the stream's last message says, after all others."""
    while True:
        flags, message = take(response)
        if flags == 2:
            assert response.read() == b""
            return message


def kinds(message):
    return [change["kind"] for change in message.get("changes", [])]


# Connect ----------------------------------------------------------------------------------------


def test_the_feed_comes_in_envelopes_as_it_happens(there):
    ask = {"namespace": there.namespace, "follow": True}
    with there.stream("POST", CHANGES, envelope(ask), STREAM) as response:
        assert response.status == 200
        assert response.getheader("content-type") == "application/connect+json"
        flags, first = take(response)
        assert flags == 0 and first["cursor"]
        there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": "mine"})
        seen = []
        while "STARTED" not in seen:
            seen += kinds(take(response)[1])


def test_a_stream_that_ends_says_how(there):
    there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": "mine"})
    all_of_it = {"namespace": there.namespace, "after": "0"}
    with there.stream("POST", CHANGES, envelope(all_of_it), STREAM) as response:
        assert ended(response) == {}
    packed = envelope(gzip.compress(json.dumps(all_of_it).encode()), flags=1)
    with there.stream("POST", CHANGES, packed,
                      {**STREAM, "connect-content-encoding": "gzip"}) as response:
        assert ended(response) == {}
    for wrong, code, reason in (
            (envelope({"after": "nonsense"}), "invalid_argument", "BAD_REQUEST"),
            (envelope({"aftr": "0"}), "invalid_argument", "BAD_REQUEST"),
            (b"", "invalid_argument", "BAD_REQUEST"),
            (envelope({}) + envelope({}), "invalid_argument", "BAD_REQUEST"),
            (envelope({})[:4], "invalid_argument", "BAD_REQUEST"),
            (envelope({}, flags=4), "invalid_argument", "BAD_REQUEST"),
            (envelope({}, flags=1), "invalid_argument", "BAD_REQUEST"),
            (struct.pack(">BI", 0, (4 << 20) + 1), "invalid_argument", "TOO_LARGE")):
        with there.stream("POST", CHANGES, wrong, STREAM) as response:
            assert response.status == 200
            error = ended(response)["error"]
            assert error["code"] == code, (wrong[:60], error)
            assert error["details"][0]["debug"]["reason"] == reason, (wrong[:60], error)
    refusal(there.ask("POST", CHANGES, "{}", JSON), 415, "invalid_argument", "BAD_REQUEST")


def test_protobuf_in_envelopes_is_the_same(there):
    ask = v1.ChangesRequest(namespace=there.namespace, after="0")
    with there.stream("POST", CHANGES, envelope(ask.SerializeToString()),
                      {"content-type": "application/connect+proto"}) as response:
        flags, size = struct.unpack(">BI", response.read(5))
        assert v1.ChangesResponse.FromString(response.read(size)).cursor


def test_a_package_is_put_by_a_stream_from_the_client(there):
    put = "/dfsmr.v1.PackageService/PutPackage"
    with there.stream("POST", put, envelope({"surprise": 1}), STREAM) as response:
        assert ended(response)["error"]["code"] == "invalid_argument"
    with there.stream("POST", put, envelope({}), STREAM) as response:
        assert ended(response)["error"]["code"] == "invalid_argument"


# Events -----------------------------------------------------------------------------------------


def events(response):
    """Each event as a dict, as it comes."""
    event = {}
    for line in response:
        line = line.decode().rstrip("\n")
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name] = value


def test_changes_are_events_whose_ids_are_cursors(there):
    for number in range(5):
        there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": f"i{number}"})
    query = urllib.parse.urlencode({"namespace": there.namespace, "kind": "started", "after": "0",
                                    "follow": "false"})
    with there.stream("GET", f"/v1/changes?{query}") as response:
        assert response.status == 200
        assert response.getheader("content-type") == "text/event-stream"
        assert response.getheader("cache-control") == "no-store"
        assert response.getheader("x-accel-buffering") == "no"
        seen = list(events(response))
    assert seen[0] == {"retry": "2000"}
    assert seen[-1] == {"event": "end", "data": "{}"}
    changes = [event for event in seen if "data" in event][:-1]
    assert [json.loads(event["data"])["instance"] for event in changes] == [
        f"i{number}" for number in range(5)]
    # From the middle on, as an EventSource comes back: it wins over `after`.
    with there.stream("GET", f"/v1/changes?{query}", None,
                      {"last-event-id": changes[2]["id"]}) as response:
        rest = [event for event in events(response) if "id" in event and "data" in event]
    assert [json.loads(event["data"])["instance"] for event in rest] == ["i3", "i4"]


def test_who_follows_hears_at_once_and_of_what_happens(there):
    with there.stream("GET", f"/v1/changes?namespace={there.namespace}") as response:
        heard = events(response)
        assert next(heard) == {"retry": "2000"}
        assert set(next(heard)) == {"id"}
        there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": "mine"})
        assert json.loads(next(event for event in heard if "data" in event)["data"])["kind"] == \
            "STARTED"


@pytest.mark.timed
def test_who_follows_logs_hears_at_once_though_there_are_no_lines(there):
    there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": "quiet"})
    began = time.monotonic()
    query = f"namespace={there.namespace}&instance=quiet"
    with there.stream("GET", f"/v1/logs?{query}") as response:
        assert response.status == 200
        assert [response.readline() for _ in range(3)] == [b"retry: 2000\n", b"\n", b":\n"]
    assert time.monotonic() - began < 4  # a beat is 4.5 s


def test_the_time_between_messages_needs_no_quotes(there):
    topics = urllib.parse.quote('[{"key": "a", "queues": {}}]')
    for every in ("1s", "%221s%22"):
        with there.stream("GET", f"/v1/watch?topics={topics}&every={every}") as response:
            assert response.status == 200, every
    message = refusal(there.get("/v1/watch?topics=nojson"), 400, "invalid_argument")
    assert "null" not in message


def test_what_is_refused_at_the_beginning_has_its_status(there):
    refusal(there.get("/v1/changes?after=nonsense"), 400, "invalid_argument", "BAD_REQUEST")
    message = refusal(there.get("/v1/changes?instnce=a"), 400, "invalid_argument", "BAD_REQUEST")
    assert "'instance'" in message
    refusal(there.get("/v1/changes?kind=nothing"), 400, "invalid_argument", "BAD_REQUEST")
    refusal(there.get("/v1/logs?namespace=a&instance=ghost"), 404, "not_found")
    assert there.ask("POST", "/v1/changes").headers["allow"] == "GET, HEAD"
    head = there.ask("HEAD", "/v1/changes?namespace=a")
    assert head.status == 200 and head.headers["content-type"] == "text/event-stream"


def test_each_change_comes_once_and_in_order_over_a_crash(new_server):
    server = new_server("--http", "localhost:0").start()
    door = Door(server)
    door.ok("Define", {"source": JOB})
    last, seen = "0", []

    def follow(until):
        nonlocal last
        with door.stream("GET", f"/v1/changes?kind=STARTED&after={last}") as response:
            for event in events(response):
                last = event.get("id", last)
                if "data" in event:
                    seen.append(json.loads(event["data"])["instance"])
                if seen[-1:] == [until]:
                    return
    for turn in range(3):
        for number in range(20):
            door.ok("Start", {"machine": "job", "id": f"{turn}-{number}"})
        follow(f"{turn}-19")
        server.kill()
        server.start()
    assert seen == [f"{turn}-{number}" for turn in range(3) for number in range(20)]


# TLS, webhooks, the document --------------------------------------------------------------------


def test_tls_is_that_of_the_port_and_certificates_are_noted(new_server, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.sign("server")
    mine = authority.sign("ann")
    server = new_server("--http", "localhost:0", "--tls-cert", str(cert), "--tls-key", str(key),
                        "--tls-client-ca", str(authority.cert), "--audit-log",
                        str(tmp_path / "audit.log")).launch()
    eventually(lambda: "http=" in server.log, 20)
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.load_cert_chain(*map(str, mine))
    door = Door(server, context=context)
    assert door.ok("Define", {"source": JOB})
    [line] = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert line["certificate"] == "ann" and line["door"] == "http"
    session = door.ask("GET", "/v1/session")
    assert session.json == {"auth": "off"}
    nameless = ssl.create_default_context(cafile=str(authority.cert))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Door(server, context=nameless).get("/healthz")
    server.terminate()
    assert server.exit_status() == 0


def test_browsers_without_certificates_can_be_let_in(new_server, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.sign("server")
    server = new_server("--http", "localhost:0", "--tls-cert", str(cert), "--tls-key", str(key),
                        "--tls-client-ca", str(authority.cert), "--http-tls-client-ca",
                        "off").launch()
    eventually(lambda: "http=" in server.log, 20)
    context = ssl.create_default_context(cafile=str(authority.cert))
    assert Door(server, context=context).get("/healthz").status == 200
    server.terminate()
    assert server.exit_status() == 0


def test_where_all_connections_are_busy_the_next_is_told_so_with_tls_too(new_server, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.sign("server")
    server = new_server("--http", "localhost:0", "--http-connections", "2", "--tls-cert", str(cert),
                        "--tls-key", str(key)).launch()
    eventually(lambda: "http=" in server.log, 20)
    context = ssl.create_default_context(cafile=str(authority.cert))
    door = Door(server, context=context)
    body = json.dumps({"wait": "60s"})
    waiting = []

    def full():
        try:
            return door.get("/healthz").status == 503
        except (OSError, http.client.HTTPException):
            return False
        finally:
            raw = Raw(door.port)
            try:
                raw.socket = context.wrap_socket(raw.socket, server_hostname="localhost")
                raw.send("POST /dfsmr.v1.RunnerService/Ready HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Type: application/json\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n{body}")
                waiting.append(raw)
            except OSError:
                pass

    eventually(full)
    for raw in waiting:
        raw.socket.close()


def test_a_webhook_is_an_item_of_its_trigger(there):
    there.ok("Define", {"namespace": there.namespace, "source": """\
trigger: pushed
on: {webhook: {path: git/push, open: true}}
start: {machine: job, id: "push-${item.body.id}"}
"""})
    reply = there.ask("POST", f"/hooks/{there.namespace}/git/push", '{"id": "7"}', JSON)
    assert reply.status == 202, reply
    assert reply.json["outcome"] == "STARTED" and reply.json["instance"] == "push-7"
    assert (reply.json["state"], reply.json["result"]) == ("RUNNING", "PENDING")
    refusal(there.ask("POST", f"/hooks/{there.namespace}/none", "{}", JSON), 404, "not_found",
            "NO_SUCH_TRIGGER")
    refusal(there.ask("POST", f"/hooks/{there.namespace}/git/push", b"x" * ((1 << 20) + 1), JSON),
            413, "invalid_argument", "TOO_LARGE")
    packed = {**JSON, "content-encoding": "gzip"}
    refusal(there.ask("POST", f"/hooks/{there.namespace}/git/push", gzip.compress(b"{}"), packed),
            400, "invalid_argument", "BAD_REQUEST")
    assert there.get(f"/hooks/{there.namespace}/git/push").headers["allow"] == "POST"


def test_the_openapi_document_knows_every_route_and_what_the_protos_say(there):
    document = there.get("/openapi.json", accept_encoding="gzip")
    document = json.loads(gzip.decompress(document.body))
    assert document["openapi"] == "3.1.0"
    paths = document["paths"]
    start = paths["/dfsmr.v1.RunnerService/Start"]["post"]
    assert start["operationId"] == "RunnerService_Start"
    assert "get" in paths["/dfsmr.v1.RunnerService/GetMachine"]
    assert "get" not in paths["/dfsmr.v1.RunnerService/Start"]
    for path in ("/v1/changes", "/v1/session", "/healthz", "/hooks/{namespace}/{path}"):
        assert path in paths
    assert "requestBody" in paths["/v1/session"]["post"]
    hook = paths["/hooks/{namespace}/{path}"]["post"]["responses"]
    assert set(hook) == {"202", "default"}
    parameters = {one["name"]: one["schema"] for one in paths["/v1/changes"]["get"]["parameters"]}
    kind = parameters["kind"]
    assert kind["type"] == "array" and "FINISHED" in kind["items"]["enum"]
    assert parameters["follow"] == {"type": "boolean"} and parameters["after"] == {"type": "string"}
    told = paths["/dfsmr.v1.RunnerService/Changes"]["post"]["description"]
    assert told.startswith("Everything that happened, in order")
    schemas = document["components"]["schemas"]
    priority = schemas["dfsmr.v1.StartRequest"]["properties"]["priority"]
    assert priority["description"] == "higher is handed out first"
    used = set()

    def look(value):
        if isinstance(value, dict):
            if "$ref" in value:
                used.add(value["$ref"].removeprefix("#/components/schemas/"))
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)
    look(document)
    assert used <= set(schemas)
