"""A gRPC call as bytes on a socket, for headers that no client library would send."""
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def header(name, value):
    """A literal one of HPACK, which is not indexed, and short."""
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class RawCall:
    """A unary call. `headers`: pairs of bytes, besides those that every call has."""

    def __init__(self, address, path, request=b"", headers=()):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        block = b"".join(header(*pair) for pair in [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
            (b":authority", address.encode()), (b"content-type", b"application/grpc"),
            (b"te", b"trailers"), *headers])
        message = struct.pack(">BI", 0, len(request)) + request
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) +
                            frame(HEADERS, END_HEADERS, 1, block) +
                            frame(DATA, END_STREAM, 1, message))

    def _read(self, size):
        read = b""
        while len(read) < size:
            piece = self.socket.recv(size - len(read))
            if not piece:
                raise ConnectionError("the server hung up")
            read += piece
        return read

    def frames(self):
        """Those of the call until it ends: (kind, body)."""
        while True:
            head = self._read(9)
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = int.from_bytes(head[5:], "big")
            body = self._read(size)
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0))
            if kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, body))
            if stream != 1:
                continue
            yield kind, body
            if kind not in (DATA, HEADERS) or flags & END_STREAM:
                return

    def reply(self):
        """The bytes of the message that the call was answered with; None: it had none."""
        data = b"".join([body for kind, body in self.frames() if kind == DATA])
        self.socket.close()
        return data[5:] if data else None
