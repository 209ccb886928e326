"""Workers of the suite as processes, and what they said."""
import json
import os
import signal
import subprocess
import time

from support import DSRV, eventually


class Worker:
    """One process after the other of a library's worker.* on a namespace."""

    def __init__(self, language, address, namespace, folder, jobs=16, **environment):
        self.log = folder / "log"
        self.printed = folder / "printed"
        self.command = [*language.command("worker"), str(self.log), str(jobs)]
        self.environment = {**os.environ, **language.environment, "DFSMR_SERVER": address,
                            "DFSMR_NAMESPACE": namespace, "no_proxy": "127.0.0.1",
                            "DFSMR_DSRV": str(DSRV), **environment}
        self.process = None

    @property
    def age(self):
        return time.monotonic() - self.began

    def start(self):
        self.began = time.monotonic()
        with self.printed.open("ab") as printed:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=printed,
                                            stderr=printed, env=self.environment)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, within=20):
        """SIGTERM, and its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    @property
    def notes(self):
        """(what, instance, visit, attempt), in order."""
        if not self.log.exists():
            return []
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]

    def saw(self, what, instance, within=10):
        return eventually(lambda: [note for note in self.notes if note[:2] == (what, instance)],
                          within)

    @property
    def said(self):
        return self.printed.read_text(errors="replace")
