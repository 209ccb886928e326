"""Empty work with 64 tasks in hand, beside the language's plain stubs on the same stream."""
import os
import statistics
import subprocess

import pytest
from support import LOOP

# Of the contract: at least the plain stubs' in Go and TypeScript, nine tenths in Python. The rest is
# what a busy machine takes from a short measurement.
LEAST = {"python": 0.9, "go": 1.0, "typescript": 1.0}
NOISE = 0.15


def measure(language, server, namespace, how, seconds):
    done = subprocess.run([*language.command("bench"), how, str(seconds)], timeout=60 + seconds,
                          capture_output=True, text=True,
                          env={**os.environ, **language.environment, "no_proxy": "127.0.0.1",
                               "DFSMR_SERVER": server.address, "DFSMR_NAMESPACE": namespace})
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("rounds, seconds", [
    pytest.param(3, 1, id="short"), pytest.param(7, 5, id="long", marks=pytest.mark.slow)])
def test_the_loop_costs_next_to_nothing(language, server, space, rounds, seconds):
    def rate(how, number):
        # Of its own: the claims of a library's worker that is gone stay with its session for a while.
        own = server.space(f"{space.name}-{how}-{number}")
        own.define(LOOP)
        own.start_many("loop", 64)
        return measure(language, server, own.name, how, seconds)

    pairs = []
    for number in range(rounds):
        order = ["library", "plain"] if number % 2 else ["plain", "library"]
        pairs.append({how: rate(how, number) for how in order})
    rates = {how: statistics.median(pair[how] for pair in pairs) for how in pairs[0]}
    ratio = rates["library"] / rates["plain"]
    best = max(pair["library"] / pair["plain"] for pair in pairs)
    print(f"{language.name}: {rates['library']:.0f}/s, plain stubs {rates['plain']:.0f}/s, "
          f"ratio {ratio:.2f} (best of {rounds}: {best:.2f})")
    assert max(ratio, best) >= LEAST[language.name] - NOISE
