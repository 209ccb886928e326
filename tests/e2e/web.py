"""A server's HTTP door, as the tests use it: http.client, and raw sockets for what that cannot say."""
import contextlib
import http.client
import json
import re
import socket
import time

from support import CALL, Server, eventually

JSON = {"content-type": "application/json"}


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:500]!r}"


class Door:
    """The door of one server; `token` goes with every request."""

    def __init__(self, server, token=None, context=None):
        self.server = server
        self.token = token
        self.context = context

    @property
    def port(self):
        return port_of(self.server)

    def connect(self):
        if self.context:
            return http.client.HTTPSConnection("localhost", self.port, timeout=CALL,
                                               context=self.context)
        return http.client.HTTPConnection("localhost", self.port, timeout=CALL)

    def ask(self, verb, path, body=None, headers=()):
        with contextlib.closing(self.connect()) as connection:
            every = {"authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(verb, path, body, {**every, **dict(headers)})
            reply = connection.getresponse()
            return Reply(reply.status, reply.getheaders(), reply.read())

    def get(self, path, **headers):
        return self.ask("GET", path, headers={name.replace("_", "-"): value
                                              for name, value in headers.items()})

    def call(self, method, request=None, headers=(), service="RunnerService"):
        """A unary call by POST, as JSON."""
        body = request if isinstance(request, (str, bytes)) else json.dumps(request or {})
        return self.ask("POST", f"/dfsmr.v1.{service}/{method}", body, {**JSON, **dict(headers)})

    def ok(self, method, request=None, **more):
        reply = self.call(method, request, **more)
        assert reply.status == 200, reply
        return reply.json

    @contextlib.contextmanager
    def stream(self, verb, path, body=None, headers=()):
        """The response of a stream, to be read as it comes."""
        with contextlib.closing(self.connect()) as connection:
            every = {"authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(verb, path, body, {**every, **dict(headers)})
            yield connection.getresponse()


def port_of(server):
    found = eventually(lambda: re.findall(r" http=\S*:(\d+)", server.log))
    return int(found[-1])


def refusal(reply, status, code, reason=None):
    """The reply refuses, as Connect says it; returns the message."""
    assert reply.status == status, reply
    error = reply.json
    assert error["code"] == code, error
    if reason is not None:
        assert reply.headers.get("trailer-dfsmr-reason") == reason, reply
        assert error["details"][0]["type"] == "dfsmr.v1.Error"
        assert error["details"][0]["debug"]["reason"] == reason
    return error["message"]


class Raw:
    """A connection whose bytes the test writes itself."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=CALL)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, text):
        self.socket.sendall(text.encode("latin-1") if isinstance(text, str) else text)
        return self

    def reply(self, head=False):
        line = self.file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        status, headers = int(line.split()[1]), []
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers.append((name, value.strip()))
        sizes = [int(value) for name, value in headers if name.lower() == "content-length"]
        body = b"" if head else self.file.read(sizes[0]) if sizes else b""
        return Reply(status, headers, body)

    def closed(self, within=CALL):
        """Whether the server hangs up by then; what it still sends is left out."""
        self.socket.settimeout(within)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False
