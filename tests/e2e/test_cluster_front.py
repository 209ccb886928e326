"""What the front of a server that shares its store makes of calls as they come from the network."""
import pytest

from raw_grpc import RawCall
from stubs import v1
from support import JOB
from test_errors import services_of


@pytest.fixture
def sharer(sharers):
    return sharers()


@pytest.mark.parametrize("name, value", [
    (b"x-note", b"caf\xc3\xa9"), (b"x-note", b"a\x01b"), (b"x note", b"v"), (b"x\xff", b"v"),
    (b"authorization", b"Bearer \x7f\x80"), (b"traceparent", b"\x00"),
    (b"x-note-bin", b"\x80\x81"), (b"grpc-note", b"\x80")])
def test_metadata_that_no_client_would_send_harms_nobody(sharer, name, value):
    space = sharer.space("default")
    space.define(JOB)
    request = v1.GetMachineRequest(id="job").SerializeToString()
    try:
        reply = RawCall(sharer.address, "/dfsmr.v1.RunnerService/GetMachine", request,
                        [(name, value)]).reply()
    except ConnectionError:
        reply = None
    if reply is not None:
        assert v1.Machine.FromString(reply).id == "job"
    space.start("job", "one")
    assert sharer.process.poll() is None, sharer.log


def test_each_server_tells_of_the_services_of_all(sharers):
    """By reflection, as one that is alone."""
    for server in (sharers(), sharers()):
        assert b"dfsmr.v1.RunnerService" in services_of(server)
