"""A bare Debian 12 with its own systemd, as a container of this machine."""
import pathlib
import shutil
import signal
import subprocess
import time


def run(*command, check=True, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    assert not check or done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done


def eventually(true, within=60.0):
    end = time.monotonic() + within
    while not (result := true()):
        assert time.monotonic() < end, f"not within {within} s"
        time.sleep(0.05)
    return result


def bare_system(cache, root):
    """Unpacks a minimal system to `root`; the first time it is fetched, and kept as `cache`."""
    if not cache.exists():
        made = cache.with_suffix(".making")
        shutil.rmtree(made, ignore_errors=True)
        run("debootstrap", "--variant=minbase", "--include=systemd,init-system-helpers", "bookworm",
            made)
        run("tar", "-C", made, "-cf", cache.with_suffix(".part"), ".")
        cache.with_suffix(".part").rename(cache)
        shutil.rmtree(made)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    run("tar", "-C", root, "-xf", cache)


class Machine:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.container = None

    def install_what_these_depend_on(self, packages):
        """While the network is that of this machine; once booted it has one of its own."""
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # As the installer of Debian writes it.
        (self.root / "etc/hosts").write_text("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
        depends = run("dpkg-deb", "--field", packages, "Depends").stdout
        names = [name.split()[0] for name in depends.replace("|", ",").split(",")]
        wanted = [name for name in names
                  if name not in ("dfsmr-cli", "systemd-standalone-sysusers")]
        run("chroot", self.root, "apt-get", "update", "-qq")
        run("chroot", self.root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install",
            "-y", "-qq", "--no-install-recommends", *wanted)

    def boot(self):
        self.container = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network",
             "--console=pipe", "-D", str(self.root), "--boot"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: self.leader() and
                   self.sh("systemctl is-system-running", check=False).stdout.strip()
                   in ("running", "degraded"))

    def leader(self):
        """The process that is the container's first."""
        children = pathlib.Path(f"/proc/{self.container.pid}/task/{self.container.pid}/children")
        assert self.container.poll() is None, "the container has ended"
        for child in children.read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return child
        return None

    def sh(self, command, check=True):
        return run("nsenter", "-t", self.leader(), "-m", "-u", "-i", "-n", "-p", "--", "/usr/bin/env",
                   "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "/bin/sh", "-c", command,
                   check=check)

    def copy_in(self, *files):
        for file in files:
            shutil.copy(file, self.root / "root")

    def halt(self):
        if self.container and self.container.poll() is None:
            self.container.send_signal(signal.SIGTERM)
            try:
                self.container.wait(30)
            except subprocess.TimeoutExpired:
                self.container.kill()
