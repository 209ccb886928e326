"""Channels to the addresses of a server, and what each call carries."""
from __future__ import annotations

import os
import pathlib
import threading
from typing import Any, Dict, List, Optional, Tuple

import grpc

# The server takes a ping each 10 s. Replies have no limit of their own.
_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),
]


class Channels:
    """One at a time of the addresses "a:3004,b:3004": stays with it until it is told to go on."""

    def __init__(self, address: Optional[str], token: str = "", token_file: str = "",
                 tls_ca: str = "", tls_cert: str = "", tls_key: str = "") -> None:
        address = address or os.environ.get("DFSMR_SERVER") or "localhost:3004"
        self.addresses = [one.strip() for one in address.split(",") if one.strip()]
        if not self.addresses:
            raise ValueError(f"{address!r} is no address: one is host:port, or several of them "
                             "with commas between")
        self._token, self._token_file = token, token_file
        self._credentials = _credentials(tls_ca, tls_cert, tls_key)
        self._open: Dict[str, grpc.Channel] = {}
        self._lock = threading.Lock()
        self._at = 0

    @property
    def current(self) -> grpc.Channel:
        with self._lock:
            address = self.addresses[self._at]
            channel = self._open.get(address)
            if channel is None:
                if self._credentials is not None:
                    channel = grpc.secure_channel(address, self._credentials, options=_OPTIONS)
                else:
                    channel = grpc.insecure_channel(address, options=_OPTIONS)
                self._open[address] = channel
            return channel

    def go_on(self, failed: grpc.Channel) -> None:
        """To the next address, unless another thread has gone on from `failed` already."""
        with self._lock:
            if self._open.get(self.addresses[self._at]) is failed:
                self._at = (self._at + 1) % len(self.addresses)

    def metadata(self) -> List[Tuple[str, str]]:
        """A token's file is read for every call, so that it can be replaced."""
        token = self._token
        if self._token_file:
            token = pathlib.Path(self._token_file).read_text().strip()
        return [("authorization", f"Bearer {token}")] if token else []

    def close(self) -> None:
        with self._lock:
            for channel in self._open.values():
                channel.close()
            self._open.clear()


def _credentials(ca: str, cert: str, key: str) -> Any:
    if not (ca or cert or key):
        return None
    if bool(cert) != bool(key):
        raise ValueError("tls_cert and tls_key go together")

    def read(path: str) -> Optional[bytes]:
        return pathlib.Path(path).read_bytes() if path else None

    return grpc.ssl_channel_credentials(read("" if ca == "system" else ca), read(key), read(cert))
