#!/usr/bin/python3
"""A database with a standby and three servers, with load through all of them. One server is killed,
one is stopped and continued, one is replaced, and the standby is promoted. Then an audit.

  tests/e2e/cluster_demo.py [--brief]     brief: a kill and the promotion alone"""
import argparse
import signal
import time

from cluster_crew import Crew, Pair, new_servers, owner_among
from support import Server, eventually

TAKEN = 20.0


class Story:
    def __init__(self, say=print):
        self.say = say
        self.begin = time.monotonic()
        self.pair = Pair()
        url = f"postgresql://tester@/postgres?host={self.pair.primary.folder}," \
              f"{self.pair.standby.folder}"
        self.flags = ("--store", url, "--store-schema", "demo")
        self.servers = []

    def tell(self, what):
        self.say(f"{time.monotonic() - self.begin:6.1f} s  {what}")

    def owner(self, but=None):
        others = [one for one in self.servers if one is not but]

        def somebody():
            one = owner_among(others)
            return one if one is not but else None
        return eventually(somebody, TAKEN)

    def goes_on(self):
        done = len(self.crew.reported)
        eventually(lambda: len(self.crew.reported) > done + 50, 2 * TAKEN)
        self.tell(f"{len(self.crew.started)} instances, {len(self.crew.reported)} reports so far")

    def run(self, brief):
        self.tell("a database and its synchronous standby are there")
        self.servers += new_servers(self.flags[1], "demo", 3)
        self.tell("three servers share it; clients ask any of them")
        self.crew = Crew(self.servers).begin()
        self.goes_on()
        self.kill()
        if not brief:
            self.stop_and_continue()
            self.replace()
        self.promote()
        self.crew.finish()
        self.tell("nothing is left to do; the audit: what was acknowledged, and each server's feed")
        self.tell("nothing amiss: " + self.crew.audit(self.servers))

    def kill(self):
        owner = self.owner()
        since = time.monotonic()
        owner.kill()
        self.tell(f"kill -9 of {owner.address}, which owned the partition")
        other = self.owner(but=owner)
        self.tell(f"{other.address} owns it after {time.monotonic() - since:.1f} s")
        owner.start()
        self.goes_on()

    def stop_and_continue(self):
        owner = self.owner()
        owner.process.send_signal(signal.SIGSTOP)
        self.tell(f"{owner.address} is stopped")
        other = self.owner(but=owner)
        owner.process.send_signal(signal.SIGCONT)
        self.tell(f"{other.address} owns the partition; the first goes on, and may write nothing")
        eventually(lambda: owner_among([owner]) is None or owner.process.poll() is None, TAKEN)
        self.goes_on()

    def replace(self):
        owner = self.owner()
        since = time.monotonic()
        owner.terminate()
        other = self.owner(but=owner)
        self.tell(f"{owner.address} is told to end; {other.address} owns the partition after "
                  f"{time.monotonic() - since:.1f} s")
        assert owner.exit_status(30) == 0
        self.servers.remove(owner)
        self.servers.append(Server(None, *self.flags).start())
        self.tell(f"{self.servers[-1].address} takes its place")
        self.goes_on()

    def promote(self):
        self.pair.primary.kill()
        self.tell("the primary is gone; its standby is promoted")
        self.pair.promote()
        self.goes_on()

    def dispose(self):
        for server in list(Server.all):
            server.dispose()
        self.pair.dispose()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brief", action="store_true")
    flags = parser.parse_args()
    story = Story()
    try:
        story.run(flags.brief)
    finally:
        story.dispose()


if __name__ == "__main__":
    main()
