"""Calls to a server."""
from __future__ import annotations

import os
import random
import time
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, Union

import grpc

from . import errors
from ._calls import Calls
from ._channel import Channels
from ._messages import build, fill_in
from .v1 import runner_pb2 as v1
from .v1 import admin_pb2, agent_pb2, package_pb2, schedule_pb2, view_pb2

_SERVICES = {service.full_name: service
             for file in (v1, admin_pb2, agent_pb2, package_pb2, schedule_pb2, view_pb2)
             for service in file.DESCRIPTOR.services_by_name.values()}


class Client(Calls):
    """All methods of all services, by their names: `start`, `get_instance`, `list_schedules`, ….

    A method takes the fields that its request cannot do without in their order, and the others by
    name: JSON objects as dicts, times as datetimes, durations in seconds, enums by name. It returns
    the one field of the reply, or the reply; a list is an iterator over all pages. What is refused
    raises the `Error` of its reason. Threads may share a client. A method that sends a stream takes an
    iterable of requests, each a message or a dict of its fields.

    `address` is "host:port", or several with commas between: the client stays with one, and goes on
    to the next when it cannot be reached.
    """

    def __init__(self, address: Optional[str] = None, *, namespace: str = "", token: str = "",
                 token_file: str = "", tls_ca: str = "", tls_cert: str = "", tls_key: str = "",
                 timeout: float = 30.0) -> None:
        self.namespace = namespace or os.environ.get("DFSMR_NAMESPACE", "")
        self.timeout = timeout
        self._channels = Channels(address, token, token_file, tls_ca, tls_cert, tls_key)

    # The short names.

    def check(self, source: str, **more: Any) -> v1.DefineResponse:
        """What `define` would do; raises as it would."""
        return self.define(source, validate_only=True, **more)

    def get(self, id: str, **more: Any) -> v1.Instance:
        return self.get_instance(id, **more)

    def list(self, **more: Any) -> Iterator[v1.Instance]:
        return self.list_instances(**more)

    def history(self, id: str, **more: Any) -> Iterator[v1.Change]:
        return self.get_history(id, **more)

    def machines(self, **more: Any) -> Iterator[v1.Machine]:
        return self.list_machines(**more)

    def schedules(self, **more: Any) -> Iterator[schedule_pb2.Schedule]:
        return self.list_schedules(**more)

    def triggers(self, **more: Any) -> Iterator[schedule_pb2.Trigger]:
        return self.list_triggers(**more)

    def limits(self, **more: Any) -> Iterator[schedule_pb2.Limit]:
        return self.list_limits(**more)

    def groups(self, **more: Any) -> Iterator[schedule_pb2.Group]:
        return self.list_groups(**more)

    def agents(self, **more: Any) -> Iterator[agent_pb2.Agent]:
        return self.list_agents(**more)

    # What is more than one call.

    def wait(self, id: str, *, namespace: Optional[str] = None,
             timeout: Optional[float] = None) -> v1.Instance:
        """The instance, once it has stopped. TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.02
        while True:
            instance = self.get_instance(id, namespace=namespace)
            if instance.state == v1.Instance.STOPPED:
                return instance
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"{id} has not stopped within {timeout} s; it is "
                                   f"{v1.Instance.State.Name(instance.state)}")
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def changes(self, *, machine: str = "", instance: str = "",
                kinds: Sequence[Union[int, str]] = (), after: str = "", follow: bool = True,
                dry_run: bool = False, namespace: Optional[str] = None) -> Changes:
        """What happens, in order, without gaps, also when the server was away."""
        return Changes(self, dict(machine=machine, instance=instance, kinds=kinds, follow=follow,
                                  dry_run=dry_run, namespace=namespace), after)

    def close(self) -> None:
        self._channels.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How calls are made.

    def _prepare(self, service: str, method: str, fields: Mapping[str, Any]) -> Tuple[str, str, Any, Any]:
        descriptor = _SERVICES[service].methods_by_name[method]
        request = build(descriptor.input_type, fields)
        if self.namespace:
            fill_in(request, self.namespace)
        kind = "unary_stream" if descriptor.server_streaming else "unary_unary"
        return f"/{service}/{method}", kind, request, descriptor.output_type._concrete_class

    def _call(self, path: str, kind: str, request: Any, reply: Any, timeout: Optional[float]) -> Any:
        """Goes on to the next address while one cannot be reached."""
        for left in reversed(range(len(self._channels.addresses))):
            channel = self._channels.current
            call = getattr(channel, kind)(path, type(request).SerializeToString, reply.FromString)
            try:
                return call(request, timeout=timeout, metadata=self._channels.metadata())
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise errors.of_call(error) from None
                self._channels.go_on(channel)
                if not left:
                    raise errors.of_call(error) from None

    def _reply(self, service: str, method: str, fields: Mapping[str, Any],
               timeout: Optional[float]) -> Any:
        path, kind, request, reply = self._prepare(service, method, fields)
        return self._call(path, kind, request, reply, timeout or self.timeout + _wait_of(request))

    def _unary(self, service: str, method: str, fields: Any, timeout: Any) -> Any:
        return self._only(self._reply(service, method, fields, timeout))

    @staticmethod
    def _only(reply: Any) -> Any:
        """The one field of a reply, or the reply."""
        names = [field.name for field in reply.DESCRIPTOR.fields]
        return getattr(reply, names[0]) if len(names) == 1 else reply if names else None

    def _pages(self, service: str, method: str, fields: Any, timeout: Any) -> Iterator[Any]:
        token = ""
        while True:
            reply = self._reply(service, method, {**fields, "page_token": token}, timeout)
            yield from getattr(reply, reply.DESCRIPTOR.fields[0].name)
            token = reply.next_page_token
            if not token:
                return

    def _stream(self, service: str, method: str, fields: Any, timeout: Any) -> Iterator[Any]:
        call = self._call(*self._prepare(service, method, fields), timeout)
        try:
            yield from call
        except grpc.RpcError as error:
            raise errors.of_call(error) from None
        finally:
            call.cancel()

    # A stream that has begun cannot go on at another address; the next one does.

    def _sending(self, service: str, method: str, requests: Iterable[Any], timeout: Optional[float]) -> Any:
        descriptor = _SERVICES[service].methods_by_name[method]
        request, reply = descriptor.input_type, descriptor.output_type._concrete_class
        kind = "stream_stream" if descriptor.server_streaming else "stream_unary"
        call = getattr(self._channels.current, kind)(
            f"/{service}/{method}", request._concrete_class.SerializeToString, reply.FromString)
        return call(self._messages(request, requests), timeout=timeout,
                    metadata=self._channels.metadata())

    def _messages(self, descriptor: Any, requests: Iterable[Any]) -> Iterator[Any]:
        """The first says which namespace all are of."""
        first = True
        for request in requests:
            message = build(descriptor, request) if isinstance(request, Mapping) else request
            if first and self.namespace:
                fill_in(message, self.namespace)
            first = False
            yield message

    def _send(self, service: str, method: str, requests: Any, timeout: Any) -> Any:
        channel = self._channels.current
        try:
            return self._only(self._sending(service, method, requests, timeout or self.timeout))
        except grpc.RpcError as error:
            raise self._refusal(channel, error) from None

    def _exchange(self, service: str, method: str, requests: Any, timeout: Any) -> Iterator[Any]:
        channel = self._channels.current
        call = self._sending(service, method, requests, timeout)
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._refusal(channel, error) from None
        finally:
            call.cancel()

    def _refusal(self, channel: Any, error: grpc.RpcError) -> errors.Error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            self._channels.go_on(channel)
        return errors.of_call(error)


class Changes:
    """An iterator over changes. `cursor` is where another one goes on after the last that this one
    gave out; `close` ends it, from another thread, too."""

    def __init__(self, client: Client, fields: Mapping[str, Any], after: str) -> None:
        self.cursor = after
        self._client, self._fields = client, fields
        self._call: Any = None
        self._closed = False
        self._iterator = self._all()

    def __iter__(self) -> Iterator[v1.Change]:
        return self

    def __next__(self) -> v1.Change:
        return next(self._iterator)

    def close(self) -> None:
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> Iterator[v1.Change]:
        pause = 0.1
        while not self._closed:
            try:
                self._call = self._client._call(*self._client._prepare(
                    "dfsmr.v1.RunnerService", "Changes", {**self._fields, "after": self.cursor}),
                    timeout=None)
                for message in self._call:
                    pause = 0.1
                    for change in message.changes[:-1]:
                        yield change
                    self.cursor = message.cursor or self.cursor
                    if message.changes:
                        yield message.changes[-1]
                    if self._closed:
                        return
                if not self._fields["follow"]:
                    return
            except grpc.RpcError as error:
                if self._closed:
                    return
                if error.code() not in RETRIED:
                    raise errors.of_call(error) from None
                self._client._channels.go_on(self._client._channels.current)
            except errors.Error as error:
                if error.code not in RETRIED:
                    raise
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, 10.0)


def _wait_of(request: Any) -> float:
    """For how long a poll may wait, in seconds."""
    poll = request.next if isinstance(request, v1.ReportRequest) else request
    return poll.wait.ToNanoseconds() / 1e9 if isinstance(poll, v1.ReadyRequest) else 0.0


# Of streams that are opened again.
RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED,
           grpc.StatusCode.CANCELLED, grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL,
           grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}
