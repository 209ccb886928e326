"""What dsrv tells systemd, and what SIGHUP does."""
import signal
import socket
import time

from support import SOON, eventually


class NotifySocket:
    """Stands in for systemd: takes what the server tells."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def told(self, within=SOON):
        """The next message, or None when none has come."""
        self.socket.settimeout(within)
        try:
            return self.socket.recv(4096).decode()
        except TimeoutError:
            return None


def test_systemd_is_told_of_begin_and_end_once_each(new_server, tmp_path):
    systemd = NotifySocket(tmp_path / "notify")
    server = new_server(environment={"NOTIFY_SOCKET": systemd.path}).start()
    assert systemd.told() == "READY=1"
    server.terminate()
    assert systemd.told() == "STOPPING=1"
    assert server.exit_status() == 0
    assert systemd.told(within=0.01) is None


def test_the_watchdog_hears_of_turns_until_the_server_is_stuck(new_server, tmp_path):
    systemd = NotifySocket(tmp_path / "notify")
    period = 1.5
    server = new_server(environment={"NOTIFY_SOCKET": systemd.path,
                                     "WATCHDOG_USEC": str(int(period * 1e6))}).start()
    assert systemd.told() == "READY=1"
    for _ in range(4):
        before = time.monotonic()
        assert systemd.told(within=SOON) == "WATCHDOG=1"
        assert time.monotonic() - before < SOON
    server.process.send_signal(signal.SIGSTOP)
    try:
        heard = systemd.told(within=period)  # one may have been on its way
        while heard is not None:
            heard = systemd.told(within=period)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert systemd.told() == "WATCHDOG=1"


def test_without_systemd_nothing_is_told(new_server):
    server = new_server(environment={"WATCHDOG_USEC": "100000"}).start()
    server.terminate()
    assert server.exit_status() == 0


def test_sighup_reads_the_log_level_again(new_server, tmp_path):
    config = tmp_path / "dsrv.yaml"
    config.write_text("log-level: warn\n")
    server = new_server("--config", str(config)).start()
    assert "dsrv listens" not in server.log
    config.write_text("log-level: info\n")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: "the log level is info" in server.log)
    config.write_text("log-levle: debug\n")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: "all stays as it was" in server.log)
    assert "did you mean 'log-level'?" in server.log
    assert server.process.poll() is None
