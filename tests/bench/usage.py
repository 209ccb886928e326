"""What a process has, and has taken of the machine."""
import os
import pathlib


def threads(pid):
    return _status(pid, "Threads")


def resident(pid):
    """Bytes."""
    return _status(pid, "VmRSS") * 1024


def cpu(pid):
    """Seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid, name):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))
