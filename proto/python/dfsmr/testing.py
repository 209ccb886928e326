"""For tests of handlers: a server of their own, and tasks without any."""
from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from concurrent.futures import Future
from typing import Any, List, Mapping, NamedTuple, Optional

import grpc

from ._messages import build
from .task import Task
from .v1 import runner_pb2 as v1
from .v1 import schedule_pb2, schedule_pb2_grpc


class Progress(NamedTuple):
    value: Optional[float]
    checkpoint: str
    note: str


def task(params: Optional[Mapping[str, Any]] = None, **fields: Any) -> Task:
    """A task for a handler: `input`, `checkpoint`, `event_data` as dicts, and the other fields of
    the message Task by name. What the handler tells is in `progressed`, a list of Progress."""
    given = {"machine": "machine", "node": "node", "instance": "instance-1", "visit": 1,
             "attempt": 1, "claim": "claim-1", "instance_params": params,
             "node_params": fields.pop("input", None), **fields}
    progressed: List[Progress] = []

    def send(value: Optional[float], checkpoint: str, note: str) -> Future[None]:
        progressed.append(Progress(value, checkpoint, note))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    made = Task(build(v1.Task.DESCRIPTOR, given), send)
    made.progressed = progressed  # type: ignore[attr-defined]
    return made


class Server:
    """A dsrv on a folder of its own and a free port; `with` stops it and deletes the folder."""

    def __init__(self, *flags: str, binary: Optional[str] = None) -> None:
        program = binary or os.environ.get("DFSMR_DSRV") or shutil.which("dsrv")
        if program is None:
            raise FileNotFoundError("no dsrv on PATH: name it by `binary` or DFSMR_DSRV")
        self.folder = tempfile.mkdtemp(prefix="dfsmr-")
        self.address = f"127.0.0.1:{_free_port()}"
        self._command = [program, "--addr", self.address, "--data", f"{self.folder}/data", *flags]
        self.log = f"{self.folder}/dsrv.log"
        self.start()

    def start(self) -> None:
        """Again, after `kill`: on the same folder and port."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)
        end = time.monotonic() + 20
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > end:
                with open(self.log) as text:
                    raise RuntimeError(f"dsrv does not serve:\n{text.read()}")
            time.sleep(0.02)

    def _serves(self) -> bool:
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:  # a channel that was refused once would wait before it tries again
            return False
        with grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                schedule_pb2_grpc.ScheduleServiceStub(channel).GetClock(
                    schedule_pb2.GetClockRequest(), timeout=1)
            except grpc.RpcError as error:
                return bool(error.code() == grpc.StatusCode.UNAUTHENTICATED)
        return True

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """And deletes its folder."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def server(*flags: str, binary: Optional[str] = None) -> Server:
    """Starts a server: `with dfsmr.testing.server() as server: Client(server.address)`."""
    return Server(*flags, binary=binary)


def _free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])
