"""The stream of a worker: what came, what goes, and what is in hand.

Three threads: the one that calls `run` watches the time, one reads the stream and opens it again,
and gRPC's own takes what is to be sent. Handlers run in others. One lock guards all of it.
"""
from __future__ import annotations

import collections
import logging
import queue
import random
import secrets
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

import grpc

from . import _work_pb2, errors
from ._channel import Channels
from ._messages import is_accepted
from .client import RETRIED
from .task import Task
from .v1 import runner_pb2 as v1
from .v1 import runner_pb2_grpc, schedule_pb2, schedule_pb2_grpc

log = logging.getLogger("dfsmr")

_ITEMS = 900                   # of a message; the server takes 1,000 of each kind
_BYTES = 3_000_000             # of a message; the server takes 4 MiB
_LARGEST = 4_000_000           # of a report
_SOONEST = 0.02                # seconds between two extensions of a claim
_TOGETHER = 0.001              # seconds that a report waits for another
_AGAIN = 1.0                   # seconds until a report that the server had no room for is sent again
_CALL = 5.0                    # seconds for a call beside the stream
_LOST = {"STALE_CLAIM", "NO_SUCH_INSTANCE", "INSTANCE_STOPPED", "SUPERSEDED_VERSION"}


class Held(Task):
    """A claim in hand. `state`: waiting (for an async handler to begin), running (or among the
    worker's ready ones), reported (until the answer), over.

    What most of them never have is of the class: little is made for each task."""

    state = "running"
    handler: Any = None
    future: Any = None                      # of an async handler
    report = b""                            # a TransitionRequest
    finishable = False                      # cancelled, but a report of it counts
    timed_out = False                       # it is to end, since it has run for too long
    ends_at = 0.0                           # when it will have; 0: nobody has looked at it yet
    extend_every = 0.0                      # 0: never
    extend_at = 0.0                         # 0: nobody has looked at its deadline yet
    resend_at: Optional[float] = None
    # What the next extension tells, and who waits for its answer.
    told_progress, told_checkpoint, told_note = 0.0, "", ""
    waiting: Sequence[Future[None]] = ()

    def __init__(self, message: v1.Task, loop: Loop, now: float) -> None:
        self.message, self.loop, self.since = message, loop, now
        self.key: str = message.claim

    def _send(self, progress: Optional[float], checkpoint: str, note: str) -> Future[None]:
        return self.loop.told(self, progress, checkpoint, note)

    def span(self, seconds: float, since: float) -> None:
        """So long it was until the deadline."""
        self.extend_every = max(seconds / 3, _SOONEST)
        self.extend_at = since + self.extend_every


def _too_long(held: Held) -> bytes:
    seconds = held.message.run_timeout.ToNanoseconds() / 1e9
    return v1.TransitionRequest(
        instance=held.instance, claim=held.key, transition="error", error_kind="timeout",
        error=f"it ran for longer than {seconds:g} s").SerializeToString()


class Loop:
    def __init__(self, channels: Channels, worker: Any, count: Callable[[str, int], None]) -> None:
        self._channels, self._worker, self._count = channels, worker, count
        self._session = secrets.token_hex(16)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()  # wakes the stream's sender
        self._wakes = 0.0                                 # when the watching thread looks again
        self._held: Dict[str, Held] = {}
        self._unreported = 0                              # of them
        self._reports: Deque[Held] = collections.deque()  # to be sent
        self._extends: Deque[Held] = collections.deque()
        self._returns: Deque[v1.RelinquishRequest] = collections.deque()
        self._drain = False
        self._sent_reports: Deque[Held] = collections.deque()  # not answered yet
        self._sent_extends: Deque[Tuple[Held, str, Sequence[Future[None]]]] = collections.deque()
        self._call: Any = None
        self._stopping = self._half_close = self._over = False
        self._grace_end = self._last_end = float("inf")
        self._failure: Optional[BaseException] = None
        self._offset: Optional[float] = None              # the server's clock minus ours; None: no clock

    @property
    def in_hand(self) -> int:
        return len(self._held)

    # From the worker.

    def run(self) -> None:
        reader = threading.Thread(target=self._read, name="dfsmr-stream", daemon=True)
        reader.start()
        with self._lock:
            while not self._over:
                now = time.monotonic()
                if now >= self._wakes:
                    self._wakes = min(self._tend(now), now + 60)
                self._changed.wait(max(self._wakes - now, 0.001))
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        with self._lock:
            if self._stopping:
                self._grace_end = 0.0
            else:
                self._stopping = self._drain = True
                self._grace_end = time.monotonic() + self._worker.grace
            self._news.put(None)
            self._look_at(0.0)

    def begins(self, held: Held) -> bool:
        """Before an async handler runs; False: it is not to."""
        with self._lock:
            if held.state != "waiting":
                return False
            held.state = "running"
            return True

    def report(self, held: Held, report: bytes) -> None:
        if len(report) > _LARGEST:
            log.error("a report of %s has more bytes than a message takes", held.instance)
            return self.give_back(held, "its report was too large", refused=True)
        with self._lock:
            if held.state != "running":
                return
            # Of work at most once it is better known how it went than not.
            if held.timed_out:
                report = _too_long(held)
            elif held.is_cancelled and not (held.finishable and held.at_most_once):
                return self.drop(held)
            held.state, held.report = "reported", report
            self._unreported -= 1
            self._reports.append(held)
            if len(self._reports) == 1 or not self._unreported:
                self._news.put(None)

    def drop(self, held: Held) -> None:
        """The handler of a task that is not wanted any more has ended."""
        self._count("dropped", 1)
        self.give_back(held, "cancelled")

    def give_back(self, held: Held, reason: str, refused: bool = False) -> None:
        """What runs at most once is not given back once it has begun. `refused`: this worker would
        only fail again, so for a minute it is not offered that node."""
        with self._lock:
            begun = held.state in ("running", "reported")
            if not self._forget(held):
                return
            if begun and held.at_most_once:
                log.error("%s runs at most once and cannot be given back (%s): an operator has to "
                          "look at it", held.instance, reason)
                # The server counts it as in hand until the stream is another one.
                if not self._stopping and self._call is not None:
                    self._call.cancel()
                return
            self._count("given_back", 1)
            self._returns.append(v1.RelinquishRequest(
                namespace=held.namespace, instance=held.instance, claim=held.key,
                reason=reason[:4000], refused=refused))
            self._news.put(None)

    def transitions(self, task: Task) -> str:
        """Those of the task's node, for a message. Asks the server: not from the stream's thread."""
        runner = runner_pb2_grpc.RunnerServiceStub(self._channels.current)
        try:
            instance = runner.GetInstance(
                v1.GetInstanceRequest(namespace=task.namespace, id=task.instance, with_nodes=True),
                timeout=_CALL, metadata=self._channels.metadata())
        except grpc.RpcError:
            return ""
        return ", ".join(edge.transition for node in instance.nodes if node.id == task.node
                         for edge in node.transitions)

    # The time.

    def _tend(self, now: float) -> float:
        """Does what is due, and says when to look again."""
        if self._stopping and now >= self._grace_end and not self._half_close:
            self._give_up(now)
        if now >= self._last_end and self._call is not None:
            self._call.cancel()
        soonest = min(self._last_end, float("inf") if self._half_close else self._grace_end)
        for held in self._held.values():
            if held.resend_at is not None:
                if held.resend_at <= now:
                    held.resend_at = None
                    self._reports.append(held)
                    self._news.put(None)
                else:
                    soonest = min(soonest, held.resend_at)
            # Most tasks are done before it is time to read their deadline.
            if not held.extend_at:
                if now < held.since + _SOONEST:
                    soonest = min(soonest, held.since + _SOONEST)
                    continue
                self._span(held, held.message, held.since)
            if not held.ends_at:
                limit = held.message.run_timeout
                held.ends_at = (held.since + limit.ToNanoseconds() / 1e9
                                if held.message.HasField("run_timeout") else float("inf"))
            if held.state == "running" and not held.is_cancelled:
                if held.ends_at <= now:
                    self._time_out(held)
                else:
                    soonest = min(soonest, held.ends_at)
            if held.extend_every:
                if held.extend_at <= now:
                    self._extend(held, now)
                soonest = min(soonest, held.extend_at)
        return soonest

    def _time_out(self, held: Held) -> None:
        """Tells its handler to end, whatever it returns then. Until it has, its claim is kept."""
        log.warning("%s/%s of %s has run for too long", held.machine, held.node, held.instance)
        held.timed_out = True
        self._abort(held)

    def _give_up(self, now: float) -> None:
        """The grace is over."""
        for held in list(self._held.values()):
            self._cancel(held)
            if held.state != "reported":
                self.give_back(held, "the worker stops")
        self._half_close = True
        self._last_end = now + 5
        self._changed.notify_all()
        self._news.put(None)

    def _extend(self, held: Held, now: float) -> None:
        held.extend_at = now + (held.extend_every or 1.0)
        self._extends.append(held)
        self._news.put(None)

    def _look_at(self, when: float) -> None:
        """Has the time be watched by then."""
        if when < self._wakes:
            self._wakes = when
            self._changed.notify_all()

    # The stream.

    def _read(self) -> None:
        pause = 0.1
        try:
            while True:
                if self._one_stream():
                    pause = 0.1
                with self._lock:
                    self._call = None
                    if self._changed.wait_for(self._is_done, pause * random.uniform(0.8, 1.2)):
                        return
                    pause = min(pause * 2, 10.0)
                self._count("reconnects", 1)
        except BaseException as error:
            self._failure = error
        finally:
            with self._lock:
                self._over = True
                for held in list(self._held.values()):
                    self._cancel(held)
                    self._forget(held)
                self._changed.notify_all()
                self._news.put(None)

    def _is_done(self) -> bool:
        return self._half_close or (self._stopping and not self._held)

    def _one_stream(self) -> bool:
        """A stream, to its end. Whether anything was heard; raises what is no use to try again."""
        channel, heard = self._channels.current, False
        try:
            first = self._open(channel)
            with self._lock:
                self._news = queue.SimpleQueue()
                self._take_up_again()
                work = channel.stream_stream(
                    "/dfsmr.v1.RunnerService/Work",
                    request_serializer=_work_pb2.WorkRequest.SerializeToString,
                    response_deserializer=_work_pb2.WorkResponse.FromString)
                self._call = call = work(self._requests(first, self._news),
                                         metadata=self._channels.metadata())
            for response in call:
                heard = True
                self._hear(response)
        except (grpc.RpcError, errors.Error) as error:
            refusal = errors.of_call(error) if isinstance(error, grpc.RpcError) else error
            if refusal.code not in RETRIED:
                raise refusal from None
            if not (self._stopping and not self._held):
                log.info("the stream broke: %s", refusal)
            self._channels.go_on(channel)
        finally:
            with self._lock:
                self._news.put(None)
                self._news = queue.SimpleQueue()  # the requests of the other one end
        return heard

    def _open(self, channel: grpc.Channel) -> _work_pb2.WorkRequest:
        """The first message. Asks for the clock, which deadlines are told by; not all tokens may."""
        metadata = self._channels.metadata()
        try:
            clock = schedule_pb2_grpc.ScheduleServiceStub(channel).GetClock(
                schedule_pb2.GetClockRequest(), timeout=_CALL, metadata=metadata)
            now = clock.time.ToNanoseconds() / 1e9 - time.time()
            self._offset = None if clock.is_virtual else now
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            self._offset = 0.0

        def machine(name: str) -> v1.Machine:
            try:
                return runner_pb2_grpc.RunnerServiceStub(channel).GetMachine(
                    v1.GetMachineRequest(namespace=self._worker.namespace, id=name),
                    timeout=_CALL, metadata=metadata)
            except grpc.RpcError as error:
                raise errors.of_call(error) from None

        request = self._worker.filter(machine)
        request.session = self._session
        return _work_pb2.WorkRequest(open=request)

    def _take_up_again(self) -> None:
        """On a new stream all that is in hand is extended, and what was not answered sent again."""
        now = time.monotonic()
        for held in self._sent_reports:
            if held.state == "reported" and held not in self._reports:
                self._reports.append(held)
        for held, checkpoint, waiting in self._sent_extends:
            held.told_checkpoint = held.told_checkpoint or checkpoint
            held.waiting = (*waiting, *held.waiting)
        self._sent_reports.clear()
        self._sent_extends.clear()
        self._extends.clear()
        for held in self._held.values():
            self._extend(held, now)
        self._drain = self._stopping

    def _requests(self, first: _work_pb2.WorkRequest,
                  news: queue.SimpleQueue[None]) -> Iterator[_work_pb2.WorkRequest]:
        """What is sent on the stream that `news` is of."""
        with self._lock:
            self._fill(first)
        yield first
        while True:
            if not (self._reports or self._extends or self._returns or self._drain):
                if self._half_close or self._news is not news:
                    return
                news.get()
                continue
            # Handlers that take no time go together: one message, one commit.
            known = 0
            while self._unreported and known < len(self._reports) < _ITEMS:
                known = len(self._reports)
                try:
                    news.get(timeout=_TOGETHER)
                except queue.Empty:
                    pass
            with self._lock:
                if self._news is not news:
                    return
                request = _work_pb2.WorkRequest()
                self._fill(request)
            yield request

    def _fill(self, request: _work_pb2.WorkRequest) -> None:
        """Moves as much as a message takes from what is to be sent to what was."""
        room, now = _BYTES, time.monotonic()
        reports: List[bytes] = []
        for _ in range(min(len(self._reports), _ITEMS)):
            held = self._reports.popleft()
            if held.state != "reported":
                continue
            size = len(held.report)
            if size > room and room != _BYTES:
                self._reports.appendleft(held)
                break
            room -= size
            reports.append(held.report)
            self._sent_reports.append(held)
        request.transitions.extend(reports)
        for _ in range(min(len(self._extends), _ITEMS)):
            held = self._extends[0]
            if held.state != "over":
                if len(held.told_checkpoint) > room:
                    break
                room -= len(held.told_checkpoint)
                request.extends.add(instance=held.instance, claim=held.key,
                                    progress=held.told_progress, checkpoint=held.told_checkpoint,
                                    note=held.told_note)
                self._sent_extends.append((held, held.told_checkpoint, held.waiting))
                held.told_checkpoint, held.waiting = "", ()
                held.extend_at = now + (held.extend_every or 60)
            self._extends.popleft()
        for _ in range(min(len(self._returns), _ITEMS)):
            request.relinquishes.append(self._returns.popleft())
        if self._drain:
            request.drain, self._drain = True, False

    # What is heard.

    def _hear(self, response: _work_pb2.WorkResponse) -> None:
        now = time.monotonic()
        with self._lock:
            self._answered(response.results, now)
            for item in response.extended:
                self._extended(*self._sent_extends.popleft(), item, now)
            for claim in (*response.cancelled_claims, *response.killed_claims):
                held = self._held.get(claim)
                if held is not None:
                    held.finishable = claim in response.finishable_claims
                    self._cancel(held)
            if response.tasks:
                self._take([Held(message, self, now) for message in response.tasks], now)

    def _take(self, tasks: List[Held], now: float) -> None:
        self._held.update((held.key, held) for held in tasks)
        self._unreported += len(tasks)
        self._look_at(now + _SOONEST)
        self._count("tasks", len(tasks))
        for held in self._worker.begin(tasks):
            log.error("no handler for %s/%s (action %s): given back", held.machine, held.node,
                      held.action)
            self.give_back(held, "the worker has no handler for it", refused=True)

    def _span(self, held: Held, told: Any, since: float) -> None:
        """By the deadline that a message of `since` tells."""
        if not told.HasField("deadline"):
            held.extend_at = float("inf")
        elif self._offset is None:
            held.span(3.0, since)
        else:
            server = time.time() - (time.monotonic() - since) + self._offset
            held.span(told.deadline.seconds + told.deadline.nanos / 1e9 - server, since)

    def told(self, held: Held, progress: Optional[float], checkpoint: str,
             note: str) -> Future[None]:
        """By its handler. Done when the server has answered."""
        done: Future[None] = Future()
        with self._lock:
            if held.state == "over" or held.is_cancelled:
                done.set_exception(errors.StaleClaim(f"{held.instance} is not in hand any more"))
                return done
            held.told_progress = held.told_progress if progress is None else progress
            held.told_checkpoint = checkpoint or held.told_checkpoint
            held.told_note = note[:256] or held.told_note
            held.waiting = (*held.waiting, done)
            if held not in self._extends:
                self._extends.append(held)
            self._news.put(None)
        return done

    def _answered(self, results: Sequence[bytes], now: float) -> None:
        reported = 0
        for result in results:
            held = self._sent_reports.popleft()
            if held.state != "reported":
                continue
            if is_accepted(result):
                reported += 1
                self._forget(held)
            else:
                self._refused(held, v1.TransitionResult.FromString(result).error, now)
        if reported:
            self._count("reported", reported)

    def _refused(self, held: Held, error: v1.Error, now: float) -> None:
        if error.code in (grpc.StatusCode.UNAVAILABLE.value[0],
                          grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]):
            held.resend_at = now + _AGAIN
            self._look_at(held.resend_at)
        elif error.reason in _LOST:
            self._count("stale", 1)
            log.debug("%s: %s", held.instance, error.message)
            self._forget(held)
        else:
            # No such transition: the message lists those that there are.
            report = v1.TransitionRequest.FromString(held.report)
            log.error("the report %r of %s was refused: %s", report.transition, held.instance,
                      error.message)
            self.give_back(held, report.error or error.message, refused=True)

    def _extended(self, held: Held, checkpoint: str, waiting: Sequence[Future[None]],
                  item: v1.ExtendResponse.Item, now: float) -> None:
        error = item.error if item.HasField("error") else None
        for done in waiting:
            if error is not None:
                done.set_exception(errors.of_item(error))
            else:
                done.set_result(None)
        if held.state == "over":
            return
        if error is None:
            if item.HasField("deadline"):
                self._span(held, item, now)
                self._look_at(held.extend_at)
            if item.cancel_requested or item.kill_requested:
                self._cancel(held)
        elif error.reason in _LOST and held.state != "reported":
            self._cancel(held)

    def _cancel(self, held: Held) -> None:
        """Aborts its handler, whose end then gives it back."""
        if held.state == "reported" or (held.is_cancelled and not held.timed_out):
            return
        self._count("cancelled", 1)
        if held.timed_out:  # its handler knows already
            held.timed_out = False
            return
        if self._worker.withdraw(held):  # its handler has not begun, and will not
            held.state = "waiting"
        self._abort(held)
        if held.state == "waiting":
            self.drop(held)

    @staticmethod
    def _abort(held: Held) -> None:
        held.cancel()
        if held.state == "running" and held.future is not None:
            held.future.get_loop().call_soon_threadsafe(held.future.cancel)

    def _forget(self, held: Held) -> bool:
        if held.state == "over":
            return False
        if held.state != "reported":
            self._unreported -= 1
        held.state = "over"
        del self._held[held.key]
        for done in held.waiting:
            done.set_exception(errors.StaleClaim(f"{held.instance} is not in hand any more"))
        held.waiting = ()
        if self._stopping and not self._held:
            self._changed.notify_all()
        return True
