"""The HTTP door: calls as JSON and protobuf, errors, who may call, sessions, pages, health."""
import base64
import gzip
import json
import socket
import struct
import subprocess
import time
import urllib.parse

import pytest

from stubs import v1
from support import CALL, DSRV, JOB, SOON, eventually, free_port, fresh_name
from test_security import ALLOWED, methods
from web import JSON, Door, Raw, Reply, port_of, refusal

START = "/dfsmr.v1.RunnerService/Start"
SECRET = "the-first-admin-of-this-test-server-0123456789"


@pytest.fixture
def door(web_server):
    return Door(web_server)


@pytest.fixture
def there(door):
    """A door, and a namespace of the test's own with a machine in it."""
    name = fresh_name("web")
    door.ok("Define", {"namespace": name, "source": JOB})
    door.namespace = name
    return door


def guarded(new_server, tmp_path, *flags):
    file = tmp_path / "admin.token"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return new_server("--http", "localhost:0", "--auth", "tokens", "--admin-token-file", str(file),
                      "--audit-log", str(tmp_path / "audit.log"), *flags).start()


def token_of(door, role, **more):
    made = door.ok("CreateToken", {"role": role, **more}, service="TokenService")
    return Door(door.server, made["secret"]), made["token"]


# Calls ----------------------------------------------------------------------------------------


def test_a_call_as_json_takes_json_itself_and_keeps_every_byte_of_it(there):
    params = '{ "b":1.0, "a" : [1e30, "\\u00e9"] }'
    started = there.call("Start", f'{{"namespace": "{there.namespace}", "machine": "job",'
                                  f' "id": "page-9", "params": {params}}}')
    assert started.status == 200, started
    assert started.headers["content-type"] == "application/json"
    assert started.json["instance"]["state"] == "RUNNING"
    assert started.json["instance"]["params"] == params
    assert started.json["created"] is True
    assert "priority" not in started.json["instance"]


def test_a_call_as_protobuf_is_the_same(there):
    request = v1.StartRequest(namespace=there.namespace, machine="job", params="{}")
    reply = there.ask("POST", START, request.SerializeToString(),
                      {"content-type": "application/proto"})
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/proto"
    assert v1.StartResponse.FromString(reply.body).instance.state == v1.Instance.RUNNING


def test_what_only_reads_can_be_got(there):
    message = json.dumps({"namespace": there.namespace, "id": "job"})
    path = "/dfsmr.v1.RunnerService/GetMachine?"
    plain = there.get(path + urllib.parse.urlencode({"encoding": "json", "message": message}))
    assert plain.status == 200 and plain.json["id"] == "job"
    packed = base64.urlsafe_b64encode(gzip.compress(message.encode())).decode().rstrip("=")
    same = there.get(path + urllib.parse.urlencode(
        {"connect": "v1", "encoding": "json", "base64": "1", "compression": "gzip",
         "message": packed}))
    assert same.status == 200 and same.json == plain.json
    head = there.ask("HEAD", path + urllib.parse.urlencode({"encoding": "json", "message": message}))
    assert head.status == 200 and head.body == b""
    assert int(head.headers["content-length"]) == len(plain.body)
    refused = there.get(START + "?encoding=json&message={}")
    refusal(refused, 405, "invalid_argument", "BAD_REQUEST")
    assert refused.headers["allow"] == "POST"
    refusal(there.get(path + "id=job"), 400, "invalid_argument", "BAD_REQUEST")


def test_a_call_by_get_says_what_is_wrong_with_its_parameters(there):
    path = "/dfsmr.v1.RunnerService/GetMachine?"
    newer = {"encoding": "json",
             "message": json.dumps({"namespace": there.namespace, "id": "job", "newer": 1})}
    unknown = there.get(path + urllib.parse.urlencode(newer))
    assert "newer: there is no such field" in unknown.json["message"]
    # `connect` says that a generated client asks, which may know more fields than the server.
    generated = there.get(path + urllib.parse.urlencode({"connect": "v1", **newer}))
    assert generated.status == 200 and generated.json["id"] == "job"
    twice = there.get(path + "encoding=json&message={}&message={}")
    refusal(twice, 400, "invalid_argument", "BAD_REQUEST")
    assert "'message' is given twice" in twice.json["message"]
    missing = there.get(path + "message={}")
    refusal(missing, 415, "invalid_argument", "BAD_REQUEST")
    assert missing.json["message"].startswith("the parameter 'encoding' is missing: ")
    assert missing.headers["accept-post"] == "application/json, application/proto"


def test_what_a_bulk_hands_on_may_be_json_itself(there):
    preview = there.ok("StartBulk", {"namespace": there.namespace, "filter": "machine:job",
                                     "action": "TRANSITION", "transition": "ok",
                                     "nodeParams": {"n": [1.50]}, "validateOnly": True},
                       service="BulkService")
    assert preview["state"] == "PREVIEW" and preview["request"]["nodeParams"] == '{"n": [1.5]}'


def test_bodies_by_gzip_go_both_ways(there):
    body = gzip.compress(json.dumps({"namespace": there.namespace, "id": "job"}).encode())
    reply = there.ask("POST", "/dfsmr.v1.RunnerService/GetMachine", body,
                      {**JSON, "content-encoding": "gzip", "accept-encoding": "br, gzip;q=1.0"})
    assert reply.status == 200, reply
    assert "content-encoding" not in reply.headers  # it is small
    for number in range(20):
        there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": f"i{number}"})
    listed = there.call("ListInstances", {"namespace": there.namespace},
                        {"accept-encoding": "gzip"})
    assert listed.headers["content-encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(listed.body))["instances"]) == 20
    plain = there.call("ListInstances", {"namespace": there.namespace})
    assert json.loads(gzip.decompress(listed.body)) == plain.json
    bomb = gzip.compress(b'{"source": "' + b"x" * (5 << 20) + b'"}')
    refusal(there.ask("POST", "/dfsmr.v1.RunnerService/Define", bomb,
                      {**JSON, "content-encoding": "gzip"}), 413, "invalid_argument", "TOO_LARGE")


def test_refusals_have_connects_codes_and_say_what_would_be_right(there):
    message = refusal(there.call("Start", {"namespace": there.namespace, "machine": "nowhere"}),
                      404, "not_found", "NO_SUCH_MACHINE")
    assert "nowhere" in message
    start = {"namespace": there.namespace, "machine": "job", "id": "mine"}
    there.ok("Start", start)
    refusal(there.call("Start", {**start, "params": {"a": 1}}), 409, "already_exists",
            "INSTANCE_EXISTS")
    refusal(there.call("Transition", {"namespace": there.namespace, "instance": "mine",
                                      "transition": "sideways"}),
            400, "failed_precondition", "ILLEGAL_TRANSITION")
    message = refusal(there.call("StartBatch", {"starts": [{}, {"prams": {}}]}), 400,
                      "invalid_argument", "BAD_REQUEST")
    assert "starts[1].prams" in message and "'params'" in message
    ignored = there.call("Start", {**start, "surprise": 1}, {"connect-protocol-version": "1"})
    assert ignored.status == 200, ignored
    refusal(there.call("Begin"), 404, "unimplemented", "NO_SUCH_METHOD")
    refusal(there.get("/nowhere"), 404, "unimplemented", "NO_SUCH_METHOD")
    wrong = there.ask("POST", START, "{}", {"content-type": "text/plain"})
    refusal(wrong, 415, "invalid_argument", "BAD_REQUEST")
    assert wrong.headers["accept-post"] == "application/json, application/proto"
    assert "Report" in refusal(there.call("Work"), 501, "unimplemented")
    for body in ("", "[1]", "{", '{"id": 1}'):
        refusal(there.call("Start", body), 400, "invalid_argument", "BAD_REQUEST")


def test_define_says_all_that_is_wrong_in_a_detail(there):
    reply = there.call("Define", {"namespace": there.namespace,
                                  "source": JOB.replace("ok: done", "ok: nowhere")})
    refusal(reply, 400, "invalid_argument", "BAD_MACHINE")
    detail = reply.json["details"][1]
    assert detail["type"] == "dfsmr.v1.DefineResponse"
    value = detail["value"] + "=" * (-len(detail["value"]) % 4)
    found = v1.DefineResponse.FromString(base64.b64decode(value))
    assert "nowhere" in found.diagnostics[0].message
    assert "nowhere" in detail["debug"]["diagnostics"][0]["message"]


def test_a_timeout_is_the_calls_deadline(there):
    ready = {"namespace": there.namespace, "wait": "60s"}
    before = time.monotonic()
    reply = there.call("Ready", ready, {"connect-timeout-ms": "300"})
    assert time.monotonic() - before < SOON
    refusal(reply, 504, "deadline_exceeded")
    refusal(there.call("Ready", ready, {"connect-timeout-ms": "soon"}), 400, "invalid_argument",
            "BAD_REQUEST")


def test_who_hangs_up_gets_no_task(there):
    with Raw(there.port) as raw:
        body = json.dumps({"namespace": there.namespace, "wait": "60s"})
        raw.send(f"POST /dfsmr.v1.RunnerService/Ready HTTP/1.1\r\nHost: localhost\r\n"
                 f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        there.ok("GetMachine", {"namespace": there.namespace, "id": "job"})
    there.ok("Start", {"namespace": there.namespace, "machine": "job", "id": "mine"})

    def ready():
        token = there.ok("GetInstance", {"namespace": there.namespace,
                                         "id": "mine"})["tokens"][0]
        return token["state"] == "READY" and token.get("attempts", 0) == 0
    eventually(ready, 2)


def test_each_reply_says_by_which_id_the_request_is_known(web_server, there):
    def logged(request_id, request):
        """Some refusals a second are logged one by one, of the others their number."""
        def ask():
            reply = there.call("Start", request, {"x-request-id": request_id})
            assert reply.headers["x-request-id"] == request_id
            return reply if web_server.log.count(f"request_id={request_id}") == 1 else None
        return eventually(ask)
    logged("mine-4711", {"machine": "nowhere"})
    wrong = logged("mine-4712", {"machine": "nowhere", "params_": 1})
    assert wrong.status == 400 and "params_" in wrong.json["message"]
    made = [there.get("/healthz").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    for bad in ("x" * 129, ""):
        assert there.get("/healthz", x_request_id=bad).headers["x-request-id"] not in (bad, "")


# Who asks -------------------------------------------------------------------------------------


def test_other_hosts_and_sites_are_turned_away_before_anything_is_looked_up(there):
    ask = lambda **headers: there.ask(  # noqa: E731
        "POST", START, "{}", {**JSON, **{name.replace("_", "-"): value
                                         for name, value in headers.items()}})
    refusal(ask(host="evil.test"), 421, "permission_denied", "NOT_ALLOWED")
    refusal(ask(origin="https://evil.test"), 403, "permission_denied", "NOT_ALLOWED")
    refusal(ask(sec_fetch_site="cross-site"), 403, "permission_denied", "NOT_ALLOWED")
    own = ask(host=f"localhost:{there.port}", origin=f"http://localhost:{there.port}")
    refusal(own, 400, "invalid_argument", "BAD_REQUEST")  # and so it has come to the service
    assert "access-control-allow-origin" not in own.headers
    preflight = there.ask("OPTIONS", START, None, {"origin": "https://evil.test"})
    assert preflight.status == 403
    assert there.get("/healthz", origin="https://evil.test").status == 200


def test_pages_of_allowed_origins_may_call(new_server):
    server = new_server("--http", "localhost:0", "--http-origin", "https://ops.test",
                        "--http-host", "ops.internal").start()
    door = Door(server)
    preflight = door.ask("OPTIONS", START, None, {
        "origin": "https://ops.test", "access-control-request-method": "POST"})
    assert preflight.status == 204, preflight
    assert preflight.headers["access-control-allow-origin"] == "https://ops.test"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in preflight.headers
    reply = door.call("ListMachines", {}, {"origin": "https://ops.test",
                                           "sec-fetch-site": "cross-site"})
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == "https://ops.test"
    assert door.get("/healthz", host="ops.internal:99").status == 200
    assert door.get("/healthz", host="other.internal").status == 421


def test_every_answer_keeps_browsers_from_guessing(there):
    for reply in (there.get("/healthz"), there.get("/nowhere"), there.call("Start", {})):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"


def test_tokens_and_roles_hold_here_too_and_the_audit_trail_names_the_door(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    root = Door(server, SECRET)
    refusal(Door(server).call("ListMachines"), 401, "unauthenticated", "BAD_TOKEN")
    viewer, token = token_of(root, "VIEWER")
    assert viewer.call("ListMachines").status == 200
    refusal(viewer.call("Define", {"source": JOB}), 403, "permission_denied", "NOT_ALLOWED")
    # Nobody who lacks the process's key passes for the door.
    refusal(viewer.call("Define", {"source": JOB}, {
        "x-request-id": "r-1", "dfsmr-door": "guess", "dfsmr-door-peer": "somebody else",
        "x-forwarded-for": "6.6.6.6"}), 403, "permission_denied")
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    mine = [line for line in lines if line.get("request_id") == "r-1"]
    assert len(mine) == 1
    assert mine[0]["door"] == "http" and mine[0]["token"] == token["id"]
    assert mine[0]["peer"].startswith(("ipv4:127.0.0.1:", "ipv6:"))
    assert "6.6.6.6" not in mine[0]["peer"]


def test_every_method_asks_for_the_same_roles_as_over_grpc(new_server, tmp_path):
    root = Door(guarded(new_server, tmp_path), SECRET)
    wrong = []
    for role in ("viewer", "worker", "operator", "admin", None):
        door = Door(root.server)
        if role:
            door, _ = token_of(root, role.upper(), namespace="*")
        for method in methods():
            service = method.containing_service.full_name
            if method.client_streaming and method.server_streaming:
                continue
            if service == "DistributedFSMRunner" and method.server_streaming:
                continue  # that one never ends
            path = f"/{service}/{method.name}"
            if method.client_streaming or method.server_streaming:
                with door.stream("POST", path, struct.pack(">BI", 0, 2) + b"{}",
                                 {"content-type": "application/connect+json"}) as response:
                    got = b'"permission_denied"' in (body := response.read()) or \
                        b'"unauthenticated"' in body
            else:
                # Without a claim it would come from outside, which is not for workers.
                claims = "claim" in method.input_type.fields_by_name
                body = '{"claim": "c"}' if claims else "{}"
                got = door.ask("POST", path, body, JSON).status in (401, 403)
            if got == (role in ALLOWED[service][method.name]):
                wrong.append((role, path))
    assert wrong == []


# Sessions -------------------------------------------------------------------------------------


def session(door, body=None, **headers):
    reply = door.ask("POST", "/v1/session", json.dumps(body) if body is not None else None,
                     {**(JSON if body is not None else {}), **headers})
    cookie = reply.headers.get("set-cookie", "")
    return reply, cookie.split(";")[0]


def own(port, cookie):
    return {"cookie": cookie, "host": f"localhost:{port}", "origin": f"http://localhost:{port}"}


def test_a_session_may_what_its_token_may_and_ends_with_it(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    root, nobody = Door(server, SECRET), Door(server)
    operator, parent = token_of(root, "OPERATOR")
    reply, cookie = session(nobody, {"token": operator.token})
    assert reply.status == 200, reply
    assert reply.json["parent"] == parent["id"] and reply.json["role"] == "OPERATOR"
    flags = reply.headers["set-cookie"]
    assert cookie.startswith("dfsmr=") and "HttpOnly" in flags and "SameSite=Strict" in flags
    assert "Path=/" in flags and "Secure" not in flags
    assert cookie.partition("=")[2] not in reply.body.decode()
    with_cookie = own(nobody.port, cookie)
    define = lambda headers: nobody.call("Define", {"source": JOB}, headers)  # noqa: E731
    assert define(with_cookie).status == 200
    same_origin = {"cookie": cookie, "sec-fetch-site": "same-origin"}
    assert define(same_origin).status == 200
    for half in ({"cookie": cookie}, {"cookie": cookie, "sec-fetch-site": "none"}):
        refusal(define(half), 401, "unauthenticated", "BAD_TOKEN")
    assert nobody.get("/v1/session", **with_cookie).json["id"] == reply.json["id"]
    # It is among the tokens only where sessions are asked for.
    ids = lambda **more: {token["id"] for token in root.ok(  # noqa: E731
        "ListTokens", more, service="TokenService").get("tokens", [])}
    assert reply.json["id"] not in ids() and reply.json["id"] in ids(sessions=True)
    # A session makes no sessions.
    refusal(nobody.ask("POST", "/v1/session", None, with_cookie), 403, "permission_denied",
            "NOT_ALLOWED")
    assert server.stop() == 0
    server.start()
    with_cookie = own(nobody.port, cookie)
    assert define(with_cookie).status == 200
    root.ok("RevokeToken", {"id": parent["id"]}, service="TokenService")
    refusal(define(with_cookie), 401, "unauthenticated", "BAD_TOKEN")
    assert reply.json["id"] not in ids(sessions=True)
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    changed = [line for line in lines if line["method"].endswith("/Define")
               and line["event"] == "changed"]
    assert changed[0]["token"] == reply.json["id"] and changed[0]["parent"] == parent["id"]
    for event in ("changed", "refused"):
        assert any(line["method"].endswith("/CreateSession") and line["event"] == event
                   for line in lines), event


def test_a_session_may_have_a_lower_role_and_no_higher_one(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    nobody = Door(server)
    reply, cookie = session(nobody, {"token": SECRET, "role": "viewer"})
    assert reply.json["role"] == "VIEWER"
    refusal(nobody.call("Define", {"source": JOB}, own(nobody.port, cookie)), 403,
            "permission_denied", "NOT_ALLOWED")
    worker, _ = token_of(Door(server, SECRET), "WORKER")
    for role in ("OPERATOR", "VIEWER"):  # a worker may not read
        refusal(session(worker, {"role": role})[0], 403, "permission_denied", "NOT_ALLOWED")
    refusal(session(nobody, {"token": "wrong"})[0], 401, "unauthenticated", "BAD_TOKEN")
    refusal(session(nobody, {"tokn": SECRET})[0], 400, "invalid_argument", "BAD_REQUEST")


def test_signing_out_ends_the_session(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    nobody = Door(server)
    assert nobody.get("/v1/session").json == {"auth": "tokens"}
    _, cookie = session(nobody, {"token": SECRET})
    headers = own(nobody.port, cookie)
    out = nobody.ask("DELETE", "/v1/session", None, headers)
    assert out.status == 200 and "Max-Age=0" in out.headers["set-cookie"], out
    refusal(nobody.call("ListMachines", {}, headers), 401, "unauthenticated")
    assert nobody.get("/v1/session", **headers).json == {"auth": "tokens"}
    refusal(Door(server, SECRET).ask("DELETE", "/v1/session"), 403, "permission_denied")


def test_a_code_is_good_for_one_session_and_nothing_else(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    root, nobody = Door(server, SECRET), Door(server)
    code = root.ok("CreateSession", {"code": True}, service="TokenService")
    by_code = Door(server, code["secret"])
    refusal(by_code.call("ListMachines"), 401, "unauthenticated", "BAD_TOKEN")
    refusal(by_code.call("GetCaller", service="TokenService"), 401, "unauthenticated")
    first, cookie = session(nobody, {"token": code["secret"]})
    assert first.status == 200, first
    assert first.json["parent"] == "admin-token-file"
    refusal(session(nobody, {"token": code["secret"]})[0], 401, "unauthenticated", "BAD_TOKEN")
    assert nobody.call("ListMachines", {}, own(nobody.port, cookie)).status == 200
    (tmp_path / "admin.token").write_text("another-admin-token-of-the-same-server-01234\n")
    eventually(lambda: nobody.call("ListMachines", {}, own(nobody.port, cookie)).status == 401)


def test_of_a_token_a_hundred_sessions_are_kept(new_server, tmp_path):
    server = guarded(new_server, tmp_path)
    _, first = session(Door(server), {"token": SECRET})
    _, second = session(Door(server), {"token": SECRET})
    root = Door(server, SECRET)
    for _ in range(99):
        root.ok("CreateSession", {}, service="TokenService")
    ask = lambda cookie: root.ask("GET", "/v1/session", None, {  # noqa: E731
        "authorization": "", **own(root.port, cookie)}).json
    assert ask(first) == {"auth": "tokens"}
    assert ask(second)["parent"] == "admin-token-file"


def test_where_nobody_is_asked_there_are_no_sessions(door):
    assert door.get("/v1/session").json == {"auth": "off"}


# Pages, health, the listener --------------------------------------------------------------------


def test_health_needs_no_token(new_server, tmp_path):
    door = Door(guarded(new_server, tmp_path))
    for path in ("/healthz", "/readyz"):
        assert door.get(path).json == {"status": "ok", "room": "ample"}
        assert door.ask("HEAD", path).body == b""
        assert door.ask("POST", path).headers["allow"] == "GET, HEAD"


def test_a_page_says_where_nobody_is_asked_who_they_are(new_server, tmp_path):
    told = '<meta name="dfsmr-auth" content="{}">'
    assert told.format("off") in Door(new_server("--http", "localhost:0").start()).get("/").body.decode()
    assert told.format("") in Door(guarded(new_server, tmp_path)).get("/").body.decode()


def test_pages_come_from_a_folder_with_their_base_and_hash(new_server, tmp_path):
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "index.html").write_text(
        '<meta name="dfsmr-base" content=""><script src="/assets/app.js"></script>')
    (folder / "app.js").write_text("let x = 1;\n" * 200)
    (tmp_path / "secret.txt").write_text("secret")
    door = Door(new_server("--http", "localhost:0", "--console-dir", str(folder), "--http-base",
                           "/ops/").start())
    for path in ("/ops", "/ops/", "/ops/n/default/instances?q=a", "/ops/signin", "/ops/access"):
        page = door.get(path)
        assert page.status == 200 and page.headers["content-type"].startswith("text/html"), page
        assert "trusted-types dfsmr" in page.headers["content-security-policy"]
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
    assert 'content="/ops"' in page.body.decode()
    source = page.body.decode().split('src="')[1].split('"')[0]
    assert source.startswith("/ops/assets/app.js?v=")
    cached = door.get(source)
    assert "immutable" in cached.headers["cache-control"]
    assert door.get("/ops/assets/app.js").headers["cache-control"] == "no-cache"
    assert door.get("/ops/assets/app.js?v=0").headers["cache-control"] == "no-cache"
    packed = door.get(source, accept_encoding="gzip")
    assert gzip.decompress(packed.body) == cached.body
    for path in ("/ops/assets/../secret.txt", "/ops/assets/%2e%2e/secret.txt", "/ops/assets/none",
                 "/ops/assets/", "/n/default", "/opsy"):
        assert door.get(path).status == 404, path
    (folder / "app.js").write_text("let x = 2;\n")
    assert source not in door.get("/ops/").body.decode()
    off = Door(new_server("--http", "localhost:0", "--no-console").start())
    assert off.get("/").status == 404


def test_the_door_is_off_but_beside_port_3004_and_says_where_it_listens(new_server):
    for flags in ((), ("--http", "off")):
        server = new_server(*flags).start()
        eventually(lambda: "http=off" in server.log)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    with taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = new_server("--http", address).launch()
        assert server.exit_status() == 1
        assert address in server.log


@pytest.mark.parametrize("flags, told", [
    (("--http", "here"), "--http 'here' is not HOST:PORT"),
    (("--http", "0.0.0.0:0"), "--http 0.0.0.0:0 can be reached from other machines"),
    (("--http-base", "ops"), "--http-base 'ops' is not a path"),
    (("--http-proxy", "ten"), "--http-proxy 'ten' is not ADDRESS"),
    (("--http-origin", "ops.test"), "--http-origin 'ops.test' is no origin such as https://"),
    (("--http-origin", "https://ops.test/"), "--http-origin 'https://ops.test/' is no origin"),
    (("--http-origin", "*"), "--http-origin '*' is no origin"),
    (("--http-host", "a b"), "--http-host 'a b' is no name of a host"),
    (("--http-host", "ops.test:443"), "--http-host 'ops.test:443' is no name of a host such as"),
    (("--console-dir", "/nonexistent"), "--console-dir '/nonexistent' is no folder with an index"),
])
def test_bad_flags_are_refused(tmp_path, flags, told):
    ran = subprocess.run([str(DSRV), "--addr", "localhost:0", "--data", str(tmp_path / "data"),
                          *flags], capture_output=True, text=True, timeout=CALL)
    assert ran.returncode == 2
    assert told in ran.stderr


def test_a_stop_answers_what_is_under_way_and_tells_that_it_is_not_ready(new_server):
    server = new_server("--http", "localhost:0").start()
    door = Door(server)
    with Raw(door.port) as idle, Raw(door.port) as waiting, Raw(door.port) as probe, \
            Raw(door.port) as slow:
        # All of it but its last byte is there before the stop.
        slow.send("POST /dfsmr.v1.RunnerService/ListMachines HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                  "Content-Length: 2\r\n\r\n{")
        assert slow.reply().status == 100
        body = '{"wait": "60s"}'
        waiting.send("POST /dfsmr.v1.RunnerService/Ready HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n")
        assert waiting.reply().status == 100  # from here on it is under way
        waiting.send(body)
        probe.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert probe.reply().status == 200
        server.terminate()
        # An empty reply, as over gRPC; or the stop was there before the body.
        assert waiting.reply().status in (200, 503)
        assert idle.closed()
        slow.send("}")
        assert slow.reply().status in (200, 503)
    assert server.exit_status() == 0
