"""How we log in to one SSH server: keys, agent, password, in the order of ssh(1), and why not if not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko import PKey, SSHException, Transport
from paramiko.agent import Agent, AgentKey

from toolkit.provision.known_hosts import parse_key
from toolkit.provision.routes import Hop

_OWN_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class NotLetInError(SSHException):  # type: ignore[misc]  # paramiko has no types
    """The server took nothing that we have; the message says what was tried."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass
class Login:
    """Logs in as the hop says; paramiko asks it for that once the server's key was checked."""

    hop: Hop
    tried: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def authenticate(self, transport: Transport) -> object:
        """Log in.

        Raises:
            NotLetInError: nothing was taken.
            SSHException: the connection broke over it.

        """
        allowed: set[str] = set()
        with self._agent_keys() as held:
            for name, key in self._keys(held):
                with contextlib.suppress(paramiko.AuthenticationException):
                    left = transport.auth_publickey(self.hop.user, key)
                    if not left:
                        return None
                    allowed.update(left)  # it wants a second proof
                    break
                self.tried.append(name)
                if not transport.is_active():
                    raise NotLetInError(f"{self._why()}; it hung up after {len(self.tried)} keys", self._hint())
        if self.hop.password is not None and self._is_password_taken(transport, self.hop.password.reveal()):
            return None
        raise NotLetInError(self._why(), self._hint())

    def _is_password_taken(self, transport: Transport, password: str) -> bool:
        """Give the password, and if the server only takes it as an answer to its question, then so."""
        user = self.hop.user

        def answered() -> list[str]:
            left: list[str] = transport.auth_interactive(user, lambda _title, _text, asked: [password for _ in asked])
            return left

        for way in (lambda: transport.auth_password(user, password, fallback=False), answered):
            try:
                if not way():
                    return True
            except paramiko.BadAuthenticationType:
                continue
            except paramiko.AuthenticationException:
                pass
            self.tried.append("the password")
            return False
        self.tried.append("the password, which it does not ask for")
        return False

    @contextlib.contextmanager
    def _agent_keys(self) -> Iterator[list[AgentKey]]:
        """Give the keys of the agent while the block runs; none where there is no agent."""
        if self.hop.agent == "none":
            yield []
            return
        agent = None
        with contextlib.suppress(SSHException, OSError):
            agent = Agent()
        try:
            yield [] if agent is None else list(agent.get_keys())
        finally:
            if agent is not None:
                with contextlib.suppress(OSError, SSHException):
                    agent.close()

    def _keys(self, held: list[AgentKey]) -> Iterator[tuple[str, PKey]]:
        """Give the named keys first, out of the agent where it holds them, then the agent's others, then our own."""
        in_agent = {key.asbytes(): key for key in held}
        given: set[bytes] = set()
        own = [str(Path("~/.ssh").expanduser() / name) for name in _OWN_KEYS]
        for path in self.hop.keys:
            public = _public_half(path)
            if public in in_agent:
                given.add(public)
                yield path, in_agent[public]
            elif (key := self._loaded(path, is_named=True)) is not None:
                yield path, key
        if self.hop.is_only_keys:
            return
        for blob, key in in_agent.items():
            if blob not in given:
                given.add(blob)
                yield f"the agent's {getattr(key, 'comment', '') or key.get_name()}", key
        for path in own:
            if path not in self.hop.keys and Path(path).is_file() and _public_half(path) not in given:
                key_of_ours = self._loaded(path, is_named=False)
                if key_of_ours is not None:
                    yield path, key_of_ours

    def _loaded(self, path: str, *, is_named: bool) -> PKey | None:
        try:
            return PKey.from_path(path)
        except paramiko.PasswordRequiredException:
            self.locked.append(path)
        except FileNotFoundError:
            if is_named:
                self.broken.append(f"{path} is not there")
        except OSError as error:
            self.broken.append(f"{path} cannot be read: {error.strerror or error}")
        except (SSHException, ValueError, TypeError, IndexError) as error:
            # How a passphrase is missed depends on the format of the key.
            if "assword" in str(error) or "encrypted" in str(error):
                self.locked.append(path)
            else:
                self.broken.append(f"{path} is no private key")
        return None

    def _why(self) -> str:
        user = self.hop.user
        said = [f"it takes none of what {user} was shown: {', '.join(self.tried)}"] if self.tried else []
        said += [f"{path} is encrypted and no agent holds it" for path in self.locked]
        said += self.broken
        return "; ".join(said) if said else f"there is neither a key nor a password for {user}"

    def _hint(self) -> str | None:
        if self.locked:
            return f"ssh-add {self.locked[0]}"
        return None


def _public_half(path: str) -> bytes:
    """Return the public key beside a private one, or nothing."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(path if path.endswith(".pub") else f"{path}.pub").read_text(encoding="utf-8")
        if (key := parse_key(text)) is not None:
            return key.blob
    return b""
