"""Empty work with 64 tasks in hand, beside the language's plain stubs on the same stream."""
import os
import statistics
import subprocess

import pytest
from support import LOOP

# At least the plain stubs' in Go and TypeScript, nine tenths in Python. NOISE is what a busy machine
# takes from a measurement: most of the time is the server's, and its disk's. The long form is told by
# its median. The best of the short form, of a second each, says no more than that no loop sleeps.
LEAST = {"python": 0.9, "go": 1.0, "typescript": 1.0}
NOISE = {"short": 0.4, "long": 0.05}
RESULT = {"short": max, "long": statistics.median}


def measure(language, server, namespace, how, seconds):
    done = subprocess.run([*language.command("bench"), how, str(seconds)], timeout=60 + seconds,
                          capture_output=True, text=True,
                          env={**os.environ, **language.environment, "no_proxy": "127.0.0.1",
                               "DFSMR_SERVER": server.address, "DFSMR_NAMESPACE": namespace})
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("form, rounds, seconds", [
    pytest.param("short", 1, 1, id="short"),
    pytest.param("long", 7, 5, id="long", marks=pytest.mark.slow)])
def test_the_loop_costs_next_to_nothing(language, server, space, form, rounds, seconds):
    def rate(how, number):
        # Of its own: the claims of a library's worker that is gone stay with its session for a while.
        own = server.space(f"{space.name}-{how}-{number}")
        own.define(LOOP)
        own.start_many("loop", 64)
        return measure(language, server, own.name, how, seconds)

    least = LEAST[language.name] - NOISE[form]
    result, ratios = RESULT[form], []
    while len(ratios) < rounds or (len(ratios) < rounds + 3 and result(ratios) < least):
        rates = {how: rate(how, len(ratios)) for how in ("plain", "library")}
        ratios.append(rates["library"] / rates["plain"])
        print(f"{language.name}: {rates['library']:.0f}/s, plain stubs {rates['plain']:.0f}/s")
    print(f"{language.name}: ratio {statistics.median(ratios):.2f}, at best {max(ratios):.2f}")
    assert result(ratios) >= least
