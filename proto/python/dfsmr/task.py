"""What a handler is given, and what it may answer."""
from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import threading
from concurrent.futures import Future
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ._messages import build, from_json, to_duration, to_json
from .v1 import runner_pb2 as v1


class Retry(Exception):
    """The transition `error`, to be tried again: `after` seconds, or as the node's policy says."""

    def __init__(self, text: str = "", after: Union[float, datetime.timedelta, None] = None,
                 kind: str = "") -> None:
        super().__init__(text)
        self.after = after
        self.kind = kind


class Fail(Exception):
    """The transition `error`, without any more tries."""

    def __init__(self, text: str = "", kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


@dataclasses.dataclass
class Result:
    """What a handler may return; a dict with these keys, (transition, output) or the name of the
    transition does as well, and None is "ok"."""

    transition: str = "ok"
    params: Optional[Mapping[str, Any]] = None      # for the next node
    output: Optional[Mapping[str, Any]] = None      # kept as this node's
    start: Sequence[Any] = ()                       # instances: dicts with the keys of StartRequest
    checkpoint: Optional[Mapping[str, Any]] = None
    # Of a step that suspends.
    wake_after: Union[float, datetime.timedelta, None] = None
    children: Sequence[Any] = ()                    # as `start`
    children_concurrency: int = 0

    @classmethod
    def of(cls, value: Any) -> Result:
        if isinstance(value, Result):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return cls(value[0], output=value[1])
        if isinstance(value, Mapping):
            return cls(**value)
        raise TypeError(f"a handler returned {value!r}, which is no result: it is None, a "
                        "transition, (transition, output), or a dict with `transition`, `output`, "
                        "`params`, `start` or `checkpoint`")

    def report(self) -> v1.TransitionRequest:
        """Raises TypeError or ValueError where something is no JSON."""
        report = v1.TransitionRequest(
            transition=self.transition, node_params=to_json(self.params),
            output=to_json(self.output), checkpoint=to_json(self.checkpoint),
            children_concurrency=self.children_concurrency,
            starts=[_start(one) for one in self.start],
            children=[_start(one) for one in self.children])
        if self.wake_after is not None:
            report.wake_after.CopyFrom(to_duration(self.wake_after))
        return report


def _start(value: Any) -> v1.StartRequest:
    return value if isinstance(value, v1.StartRequest) else build(v1.StartRequest.DESCRIPTOR, value)


class Cancelled(threading.Event):
    """Set once the task is not to be worked on any more; true or false as it stands."""

    def __bool__(self) -> bool:
        return self.is_set()


_making = threading.RLock()  # of Task.cancelled, against cancel

# Sends progress, a checkpoint's text and a note; done when the server has answered.
Send = Callable[[Optional[float], str, str], "Future[None]"]


class Task:
    """A visit of an instance to a node, in this worker's hands."""

    is_cancelled = False
    _waits = True  # progress does, in handlers that are not async

    def __init__(self, message: v1.Task, send: Send) -> None:
        self.message = message
        self._sender = send

    namespace: str = property(lambda self: self.message.namespace)  # type: ignore[assignment]
    instance: str = property(lambda self: self.message.instance)  # type: ignore[assignment]
    machine: str = property(lambda self: self.message.machine)  # type: ignore[assignment]
    version: int = property(lambda self: self.message.version)  # type: ignore[assignment]
    node: str = property(lambda self: self.message.node)  # type: ignore[assignment]
    visit: int = property(lambda self: self.message.visit)  # type: ignore[assignment]
    attempt: int = property(lambda self: self.message.attempt)  # type: ignore[assignment]
    claim: str = property(lambda self: self.message.claim)  # type: ignore[assignment]
    action: str = property(lambda self: self.message.action)  # type: ignore[assignment]
    queue: str = property(lambda self: self.message.queue)  # type: ignore[assignment]
    event: str = property(lambda self: self.message.event)  # type: ignore[assignment]
    phase: str = property(lambda self: self.message.phase)  # type: ignore[assignment]
    dry_run: bool = property(lambda self: self.message.dry_run)  # type: ignore[assignment]
    tries: int = property(lambda self: self.message.tries)  # type: ignore[assignment]
    tries_limit: int = property(lambda self: self.message.tries_limit)  # type: ignore[assignment]

    @functools.cached_property
    def cancelled(self) -> Cancelled:
        """Made when it is asked for: most handlers end before it is of interest."""
        with _making:
            made = Cancelled()
            if self.is_cancelled:
                made.set()
            self.__dict__["cancelled"] = made
        return made

    def cancel(self) -> None:
        with _making:
            self.is_cancelled = True
            if "cancelled" in self.__dict__:
                self.__dict__["cancelled"].set()

    @functools.cached_property
    def params(self) -> Any:
        """The instance's, as given at its start."""
        return from_json(self.message.instance_params)

    @functools.cached_property
    def input(self) -> Any:
        """The node's or step's: given by the transition that led here, or by the plan."""
        return from_json(self.message.node_params)

    @functools.cached_property
    def event_data(self) -> Any:
        return from_json(self.message.event_data)

    @functools.cached_property
    def checkpoint(self) -> Any:
        """The last that an attempt left; None: there is none."""
        return from_json(self.message.checkpoint) if self.message.checkpoint else None

    @property
    def deadline(self) -> Optional[datetime.datetime]:
        """By the server's clock, as it was at the claim; the worker moves it on. None: never."""
        if not self.message.HasField("deadline"):
            return None
        return self.message.deadline.ToDatetime(datetime.timezone.utc)

    @property
    def at_most_once(self) -> bool:
        return not self.message.HasField("deadline")

    @property
    def traceparent(self) -> str:
        """W3C Trace Context, where the server sends one."""
        return self.message.traceparent

    def progress(self, value: Optional[float] = None, *,
                 checkpoint: Optional[Mapping[str, Any]] = None, note: str = "") -> Any:
        """Tells how far it is, from 0 to 1. A checkpoint is on the server's disk when this returns;
        in an async handler `await` says so, and without it nothing waits."""
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"progress is from 0 to 1, not {value}")
        done = self._send(value, "" if checkpoint is None else to_json(checkpoint) or "{}", note)
        if not self._waits:
            return asyncio.wrap_future(done)
        if checkpoint is not None:
            done.result()
        return None

    def _send(self, progress: Optional[float], checkpoint: str, note: str) -> Future[None]:
        return self._sender(progress, checkpoint, note)
