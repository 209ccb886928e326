"""The HTTP door and clients that break the rules: smuggling, floods, slowness, many connections."""
import json
import socket
import time

import pytest

from support import CALL, eventually
from web import Door, Raw, refusal


@pytest.fixture
def door(web_server):
    return Door(web_server)


HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = "POST /dfsmr.v1.RunnerService/ListMachines HTTP/1.1\r\nHost: localhost\r\n" \
       "Content-Type: application/json\r\n"


@pytest.mark.parametrize("request_bytes, status", [
    (POST + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (POST + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    (POST + "Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
    (HEALTH + "Host: localhost\r\n\r\n", 400),
    (HEALTH + "X : y\r\n\r\n", 400),
    (HEALTH + "X: y\n\r\n", 400),
    (HEALTH + "X: a\x00b\r\n\r\n", 400),
    ("GET /healthz HTTP/3.0\r\n\r\n", 400),
    ("GET /" + "a" * 9000, 414),
    (HEALTH + "X: " + "a" * 17000, 431),
    (HEALTH + "X: y\r\n" * 101 + "\r\n", 431),
    (POST + f"Content-Length: {(4 << 20) + 1}\r\n\r\n", 413),
    ("GET /healthz HTTP/1.1\r\n\r\n", 421),
])
def test_what_is_no_request_is_refused_and_the_connection_closed(door, request_bytes, status):
    with Raw(door.port) as raw:
        raw.send(request_bytes)
        reply = raw.reply()
        assert reply.status == status, reply
        assert reply.json["details"][0]["debug"]["reason"] in (
            "BAD_REQUEST", "TOO_LARGE", "NOT_ALLOWED")
        assert status == 421 or reply.headers["connection"] == "close"
        assert status == 421 or raw.closed()
    assert door.get("/healthz").status == 200


@pytest.mark.parametrize("accepted, packed", [
    ("gzip", True), ("deflate, gzip;q=1.0, *;q=0.5", True), ("GZIP; q=0.1", True), ("x-gzip", False),
    ("gzip;q=0", False), ("gzip; q=0.0", False), ("identity;q=1, gzip;q=0", False),
])
def test_answers_are_packed_for_those_who_take_that(door, accepted, packed):
    reply = door.get("/openapi.json", accept_encoding=accepted)
    assert (reply.headers.get("content-encoding") == "gzip") == packed


def test_pipelined_requests_are_answered_in_order(door):
    with Raw(door.port) as raw:
        raw.send("".join(HEALTH + f"X-Request-Id: n{n}\r\n\r\n" for n in range(200)))
        assert [raw.reply().headers["x-request-id"] for _ in range(200)] == \
            [f"n{n}" for n in range(200)]


def test_a_body_in_chunks_is_one_body_however_it_is_cut(door):
    body = b"2\r\n{}\r\n0\r\n\r\n"
    for cut in range(1, len(body)):
        with Raw(door.port) as raw:
            raw.send(POST + "Transfer-Encoding: chunked\r\n\r\n")
            raw.send(body[:cut])
            door.get("/healthz")
            raw.send(body[cut:])
            assert raw.reply().status == 200


def test_expect_continue_is_answered(door):
    with Raw(door.port) as raw:
        raw.send(POST + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert raw.reply().status == 100
        raw.send("{}")
        assert raw.reply().status == 200
    with Raw(door.port) as raw:
        raw.send(POST + "Content-Length: 5000000\r\nExpect: 100-continue\r\n\r\n")
        assert raw.reply().status == 413


def test_http_1_0_closes_and_keep_alive_stays(door):
    with Raw(door.port) as raw:
        raw.send("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert raw.reply().headers["connection"] == "close"
        assert raw.closed()
    with Raw(door.port) as raw:
        for _ in range(3):
            raw.send(HEALTH + "\r\n")
            assert "connection" not in raw.reply().headers
        raw.send(HEALTH + "Connection: close\r\n\r\n")
        assert raw.reply().status == 200 and raw.closed()


@pytest.mark.timed
def test_who_says_nothing_or_half_a_head_is_closed_after_ten_seconds(door):
    with Raw(door.port) as silent, Raw(door.port) as slow:
        slow.send("GET /healthz HT")
        began = time.monotonic()
        assert silent.closed(15) and slow.closed(15)
        assert 9 < time.monotonic() - began < 13


def test_beyond_the_most_connections_the_idle_for_longest_goes(new_server):
    door = Door(new_server("--http", "localhost:0", "--http-connections", "4").start())
    idle = []
    for _ in range(4):
        raw = Raw(door.port).send(HEALTH + "\r\n")
        assert raw.reply().status == 200
        idle.append(raw)
    assert door.get("/healthz").status == 200
    assert idle[0].closed()
    for raw in idle:
        raw.__exit__()


def test_where_all_connections_are_busy_the_next_is_turned_away(new_server):
    door = Door(new_server("--http", "localhost:0", "--http-connections", "4").start())
    body = json.dumps({"wait": "60s"})
    waiting = []

    def wait():
        waiting.append(Raw(door.port).send(
            POST.replace("ListMachines", "Ready") + f"Content-Length: {len(body)}\r\n\r\n{body}"))

    def full():
        with Raw(door.port) as raw:
            raw.send(HEALTH + "\r\n")
            try:
                reply = raw.reply()
            except (AssertionError, ConnectionError):
                reply = None
        if reply and reply.status == 503:
            return reply.headers["retry-after"] == "1"
        wait()  # one whose request had not been read yet may have had to go for another
        return False
    eventually(full)
    for raw in waiting:
        raw.__exit__()
    eventually(lambda: door.get("/healthz").status == 200)


def test_thousands_that_misbehave_do_not_hold_up_others(door):
    with_nothing = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(300)]
    for number, one in enumerate(with_nothing):
        one.sendall([b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 1\r\n" * 2,
                     b"\x00" * 100, b"\x16\x03\x01\x02\x00"][number % 5])
    began = time.monotonic()
    for _ in range(50):
        assert door.call("ListMachines").status == 200
    assert time.monotonic() - began < 10
    for one in with_nothing:
        one.close()
