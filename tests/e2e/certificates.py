"""Certificates of a test's own: a root, and what it signs, made with the openssl program."""
import subprocess

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A root certificate in a folder, and certificates signed by it."""

    def __init__(self, folder, name="root"):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.cert = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                 "-nodes", "-keyout", self.key, "-out", self.cert, "-days", 2,
                 "-subj", f"/CN={name}")

    def sign(self, name, days=2):
        """The files of a certificate for this machine and of its key."""
        cert, key, request, names = (self.folder / f"{name}.{end}"
                                     for end in ("pem", "key", "csr", "ext"))
        names.write_text(_NAMES)
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                 "-CAcreateserial", "-out", cert, "-days", days, "-extfile", names)
        return cert, key
