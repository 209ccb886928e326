"""A worker: handlers, and who runs them."""
from __future__ import annotations

import asyncio
import collections
import functools
import inspect
import logging
import os
import queue
import signal
import socket
import threading
import traceback
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from . import errors
from ._channel import Channels
from ._loop import Held, Loop
from ._messages import to_duration, transition_report
from .task import Fail, Result, Retry, Task
from .v1 import runner_pb2 as v1

Handler = Callable[[Task], Any]
Middleware = Callable[[Task, Handler], Any]
_Key = Tuple[str, str, str]  # machine, node, action

log = logging.getLogger("dfsmr")


class _BadResult(Exception):
    """What a handler returned is no result, or no JSON."""


class Worker:
    """Takes tasks on a stream, runs their handlers, and reports what these return.

    `jobs`: tasks at once. `queues`, `capabilities`: takes only what waits in these queues, and what
    asks for no other capabilities. `grace`: seconds in which handlers may finish at the end.
    `middleware`: by name, what wraps the handlers of tasks that ask for it; called with the task and
    what to call. `tracebacks`: reports errors with their stack. `count`: called with a counter's
    name and an amount. `dry_run`: also takes tasks of dry runs. The rest is as in `Client`.
    """

    def __init__(self, address: Optional[str] = None, *, jobs: int = 1, name: str = "",
                 namespace: str = "", queues: Sequence[str] = (),
                 capabilities: Sequence[str] = (), grace: float = 30.0, token: str = "",
                 token_file: str = "", tls_ca: str = "", tls_cert: str = "", tls_key: str = "",
                 middleware: Optional[Mapping[str, Middleware]] = None, tracebacks: bool = False,
                 count: Optional[Callable[[str, int], None]] = None, dry_run: bool = False) -> None:
        if not 1 <= jobs <= 10_000:
            raise ValueError(f"jobs is from 1 to 10,000, not {jobs}")
        self.jobs = jobs
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.namespace = namespace or os.environ.get("DFSMR_NAMESPACE", "")
        self.grace = grace
        self._queues, self._capabilities, self._dry_run = list(queues), list(capabilities), dry_run
        self._middleware = dict(middleware or {})
        self._tracebacks = tracebacks
        self._handlers: Dict[_Key, Handler] = {}
        self._async_handlers: Set[Handler] = set()
        self._found: Dict[_Key, Optional[Handler]] = {}  # by what a task has
        self._channels = Channels(address, token, token_file, tls_ca, tls_cert, tls_key)
        self._loop = Loop(self._channels, self, count or (lambda name, amount: None))
        self._ready: Deque[Held] = collections.deque()
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()  # each wakes a thread; False ends it
        self._waking = False
        self._threads: List[threading.Thread] = []
        self._async: Optional[asyncio.AbstractEventLoop] = None

    def handles(self, machine: str = "", node: str = "", *,
                action: str = "") -> Callable[[Handler], Handler]:
        """Has a function, async or not, handle a machine's node, all nodes of a machine, or an
        action: NAME, all of NAME.*, or *."""
        if bool(machine) == bool(action) or (node and not machine):
            raise ValueError("handles(machine, node), handles(machine) or handles(action=...)")

        def register(handler: Handler) -> Handler:
            key = (machine, node, action)
            if key in self._handlers:
                raise ValueError(f"{' '.join(filter(None, key))} has a handler already")
            self._handlers[key] = handler
            if _is_async(handler):
                self._async_handlers.add(handler)
            self._found.clear()
            return handler

        return register

    # Running.

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`; a second signal ends the grace. Raises the Error
        when the server refuses the worker."""
        if threading.current_thread() is not threading.main_thread():
            return self._work()
        former = {number: signal.signal(number, self._on_signal)
                  for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._work()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    async def run_async(self) -> None:
        """The same in a program's own event loop, which runs the async handlers. Ends when it is
        cancelled, too."""
        self._async = loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            if threading.current_thread() is threading.main_thread():
                loop.add_signal_handler(number, self._on_signal)
        done = loop.create_future()

        def ended(error: Optional[BaseException]) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def work() -> None:
            try:
                self._work()
                loop.call_soon_threadsafe(ended, None)
            except BaseException as error:
                loop.call_soon_threadsafe(ended, error)

        thread = threading.Thread(target=work, name="dfsmr-worker", daemon=True)
        thread.start()
        try:
            await done
        except asyncio.CancelledError:
            self.stop()
            while thread.is_alive():
                await asyncio.sleep(0.01)
            raise
        finally:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Takes no more, lets handlers finish for `grace` seconds, and has `run` return. From any
        thread, at once; a second call ends the grace."""
        self._loop.stop()

    def _on_signal(self, *_: object) -> None:
        # The thread that is interrupted may hold the lock that stop takes.
        threading.Thread(target=self.stop, daemon=True).start()

    def _work(self) -> None:
        if not self._handlers:
            raise ValueError("a worker without handlers: decorate a function with worker.handles")
        own = None
        if self._async is None and self._async_handlers:
            own = self._async = asyncio.new_event_loop()
            threading.Thread(target=own.run_forever, name="dfsmr-async", daemon=True).start()
        try:
            self._loop.run()
        finally:
            for _ in self._threads:
                self._tokens.put(False)
            if own is not None:
                own.call_soon_threadsafe(own.stop)
            self._channels.close()

    # What the loop asks for.

    def filter(self, get_machine: Callable[[str], v1.Machine]) -> v1.ReadyRequest:
        """What is asked for: with one handler exactly that, with several their actions."""
        request = v1.ReadyRequest(namespace=self.namespace, worker=self.name, max_tasks=self.jobs,
                                  queues=self._queues, capabilities=self._capabilities,
                                  dry_run=self._dry_run, keep_for=to_duration(30))
        if len(self._handlers) == 1:
            [(machine, node, action)] = self._handlers
            request.machine, request.node = machine, node
            request.actions.extend([action] if action else [])
            return request
        wanted = {action for _, _, action in self._handlers if action}
        for machine in {machine for machine, _, action in self._handlers if not action}:
            nodes = {node for one, node, _ in self._handlers if one == machine}
            try:
                defined = {node.id: node.action for node in get_machine(machine).nodes
                           if node.kind == "work" and node.action}
            except (errors.NoSuchMachine, errors.NotAllowed):
                defined = {}
            if "" in nodes:
                wanted.update(defined.values() or [f"{machine}.*"])
            else:
                wanted.update(defined.get(node) or f"{machine}.{node}" for node in nodes)
        request.actions.extend(sorted(wanted))
        return request

    def begin(self, tasks: List[Held]) -> List[Held]:
        """Has their handlers run, and returns those that have none."""
        now: List[Held] = []
        later: List[Held] = []
        without: List[Held] = []
        for held in tasks:
            message = held.message
            key = (message.machine, message.node, message.action)
            held.handler = self._found[key] if key in self._found else self._find(key)
            if held.handler is None:
                without.append(held)
            elif held.handler in self._async_handlers:
                held.state, held._waits = "waiting", False
                later.append(held)
            else:
                now.append(held)
        if later:
            assert self._async is not None
            self._async.call_soon_threadsafe(self._begin_async, later)
        if now:
            self._ready.extend(now)
            for _ in range(min(len(now), min(self.jobs, self._loop.in_hand) - len(self._threads))):
                thread = threading.Thread(target=self._serve, name="dfsmr-handler", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._wake()
        return without

    def withdraw(self, held: Held) -> bool:
        """Whether its handler has not begun; then it never will."""
        try:
            self._ready.remove(held)
        except ValueError:
            return False
        return True

    def _find(self, key: _Key) -> Optional[Handler]:
        machine, node, action = key
        parts = action.split(".")
        actions = [action, *(".".join(parts[:n]) + ".*" for n in range(len(parts) - 1, 0, -1)),
                   "*"]
        keys = [(machine, node, ""), *(("", "", one) for one in actions), (machine, "", "")]
        found = self._found[key] = next((self._handlers[one] for one in keys if one in self._handlers),
                                        None)
        return found

    # Handlers.

    def _wake(self) -> None:
        """One thread, which wakes the next if there is more: where handlers take no time it does all
        of them before another has woken."""
        if not self._waking:
            self._waking = True
            self._tokens.put(True)

    def _serve(self) -> None:
        while self._tokens.get():
            self._waking = False
            while self._ready:
                try:
                    held = self._ready.popleft()
                except IndexError:  # another thread was first
                    break
                if self._ready and not self._waking:
                    self._wake()
                self._handle(held)

    def _handle(self, held: Held) -> None:
        try:
            report = _report(held, self._wrapped(held)(held))
        except BaseException as error:
            self._failed(held, error)
        else:
            self._loop.report(held, report)

    def _begin_async(self, tasks: List[Held]) -> None:
        for held in tasks:
            held.future = asyncio.ensure_future(self._await(held))

    async def _await(self, held: Held) -> None:
        if not self._loop.begins(held):
            return
        try:
            value = self._wrapped(held)(held)
            while inspect.isawaitable(value):
                value = await value
            report = _report(held, value)
        except BaseException as error:
            self._failed(held, error)
        else:
            self._loop.report(held, report)

    def _wrapped(self, held: Held) -> Handler:
        """Its handler in its middleware, outermost first."""
        call: Handler = held.handler
        if not held.message.middleware:
            return call
        for name in reversed(held.message.middleware):
            if name not in self._middleware:
                raise Fail(f'this worker has no middleware "{name}"')
            call = functools.partial(_around, self._middleware[name], call)
        return call

    def _failed(self, held: Held, error: BaseException) -> None:
        where = f"{held.machine}/{held.node} of {held.instance}"
        if held.timed_out:
            self._loop.report(held, b"")  # which says so
        elif held.is_cancelled:
            self._loop.drop(held)
        elif isinstance(error, asyncio.CancelledError):
            self._loop.give_back(held, "its handler was cancelled")
        elif isinstance(error, _BadResult):
            log.error("%s: %s; its transitions are %s", where, error,
                      self._loop.transitions(held) or "not known")
            self._loop.give_back(held, f"not a result: {error}", refused=True)
        else:
            if not isinstance(error, (Retry, Fail)):
                log.warning("%s failed", where, exc_info=error)
            self._loop.report(held, self._error_report(held, error))

    def _error_report(self, held: Held, error: BaseException) -> bytes:
        text = str(error) or type(error).__name__
        if self._tracebacks:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        text = text[-16_384:].encode(errors="replace").decode()
        report = v1.TransitionRequest(instance=held.instance, claim=held.key, transition="error",
                                      error=text)
        if isinstance(error, Fail):
            report.fatal, report.error_kind = True, error.kind
        if isinstance(error, Retry):
            report.error_kind = error.kind
            if error.after is not None:
                report.retry_after.CopyFrom(to_duration(error.after))
        return report.SerializeToString()


def _around(middleware: Middleware, call: Handler, task: Task) -> Any:
    return middleware(task, call)


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None))


def _report(held: Held, value: Any) -> bytes:
    """A TransitionRequest of what a handler returned."""
    if value is None or isinstance(value, str):
        return transition_report(held.message.instance, held.key, value or "ok")
    try:
        report = Result.of(value).report()
    except (TypeError, ValueError) as error:
        raise _BadResult(str(error)) from error
    report.instance, report.claim = held.instance, held.key
    return report.SerializeToString()
