"""A real OpenSSH server on 127.0.0.1 with keys, accounts and a folder of its own; it needs root, as sshd itself does.

`with SshServer(folder) as server:` answers on `server.port`; `server.variables()` is what an inventory would say of it,
`server.host("node-1")` the host. Nothing of the machine's own SSH configuration is read or changed.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.debian import require_installed
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.require import require
from support.waiting import wait_until

from toolkit.model.hosts import Host, SshAddress
from toolkit.model.names import NodeName

_PROGRAM = "/usr/sbin/sshd"
_TOOLS = {"sshd": "openssh-server", "ssh-keygen": "openssh-client", "sudo": "sudo"}
READY_WITHIN_S = 60.0


def require_sshd() -> None:
    """Skip the test, or fail it in CI, where no sshd can be run."""
    require(os.geteuid() == 0, "a test's sshd runs as root")
    require_installed(_TOOLS)


def make_key(path: Path, *, passphrase: str = "", kind: str = "ed25519") -> Path:
    """Make a key pair and return the path of its private half; the public one lies beside it, as `.pub`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


class SshServer:
    """One sshd that lets the key `server.key` in as any user of this machine.

    `options` are further lines of its sshd_config, `kind` the type of its one host key.
    """

    def __init__(self, folder: Path, *options: str, port: int | None = None, kind: str = "ed25519") -> None:
        require_sshd()
        self.folder = folder
        self.port = port or free_port()
        self.options = options
        folder.mkdir(parents=True, exist_ok=True)
        self.key = make_key(folder / "operator_key")
        self.host_key_file = make_key(folder / "host_key", kind=kind)
        self._authorized = folder / "authorized_keys"
        self._process: subprocess.Popen[bytes] | None = None
        self.authorize(self.key)

    @property
    def user(self) -> str:
        """Who runs the tests."""
        return pwd.getpwuid(os.geteuid()).pw_name

    @property
    def host_key(self) -> str:
        """The server's public key, as known_hosts has it, without a host's name."""
        return " ".join(self.host_key_file.with_suffix(".pub").read_text().split()[:2])

    @property
    def known_hosts_line(self) -> str:
        """What a known_hosts file would say of this server."""
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"

    @property
    def log(self) -> str:
        """What the server said until now."""
        path = self.folder / "sshd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def authorize(self, *keys: Path) -> None:
        """Let only these keys in."""
        self._authorized.write_text("".join(key.with_suffix(".pub").read_text() for key in keys))

    def variables(self, **more: Any) -> dict[str, Any]:
        """Return the variables `ssh.*` with which the server is reached and known."""
        known = {"user": self.user, "port": self.port, "key": str(self.key), "host_key": self.host_key}
        return {"ssh": {**known, **more}}

    def host(self, name: str = "node-1", *, address: str = "127.0.0.1", **more: Any) -> Host:
        """Return a host that is reached through this server; `more` are other fields of its `SshAddress`."""
        return Host(NodeName(name), address, ssh=SshAddress(**{**self.variables()["ssh"], **more}))

    def new_host_key(self, kind: str = "ed25519") -> None:
        """Have another host key from now on, as after an installation from scratch."""
        self.stop()
        for path in (self.host_key_file, self.host_key_file.with_suffix(".pub")):
            path.unlink()
        make_key(self.host_key_file, kind=kind)
        self.start()

    def start(self) -> None:
        """Start the server and return when it takes connections."""
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join([*self.options, *self._lines(), ""]))
        with (self.folder / "sshd.log").open("ab") as log:
            command = [_PROGRAM, "-D", "-e", "-f", str(config)]
            self._process = start(command, cwd=self.folder, env=quiet_environment(self.folder), output=log)
        try:
            wait_until(self._listens, deadline_s=READY_WITHIN_S, what=f"sshd to listen on port {self.port}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and every session in it; twice is harmless."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _lines(self) -> list[str]:
        return [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.host_key_file}",
            "AuthorizedKeysFile none",
            # A test's folder is root's alone, while a file would be read as the user who logs in.
            f"AuthorizedKeysCommand /bin/cat {self._authorized}",
            "AuthorizedKeysCommandUser root",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PidFile none",
            # Keeps bash from reading this machine's ~/.bashrc, whatever that does.
            "SetEnv SHLVL=2",
            "MaxStartups 200",
            "AllowTcpForwarding yes",
            "Subsystem sftp internal-sftp",
        ]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
