"""Workers and clients of dfsmr, the distributed finite state machine runner."""
from . import errors, testing, v1
from .client import Changes, Client
from .errors import *  # noqa: F401,F403
from .errors import Error
from .task import Cancelled, Fail, Result, Retry, Task
from .worker import Worker

__all__ = ["Cancelled", "Changes", "Client", "Error", "Fail", "Result", "Retry", "Task", "Worker",
           "errors", "testing", "v1", *(error.__name__ for error in Error._by_reason.values())]
