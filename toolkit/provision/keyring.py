"""The operator's keys: the one that releases are signed with, and the list of those that provisioned nodes trust.

Where the inventory names neither, both lie in the folder `keys` of the state folder, private (0600). Whether there is a
key is told without loading anything.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import ConfigurationError, NotFoundError, RefusedError
from toolkit.model.hosts import Secret
from toolkit.provision import private_files

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory
    from toolkit.trust.keys import PublicKey, SigningKey, TrustedKeys

FOLDER, PRIVATE, PUBLIC, TRUSTED = "keys", "signing.pem", "signing.pub", "trusted.keys"
_HEADING = "# The keys whose signatures count. A line that begins with `revoked` takes a key out for good.\n"
_NO_KEY = "there is no signing key"
_MAKE_ONE = "crawlctl keys new makes one; signing_key in the inventory names another"


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of one inventory. `named_key` and `named_list` are what it says of them."""

    state_folder: Path
    named_key: Secret | None = None
    named_list: Path | None = None

    @classmethod
    def of(cls, inventory: Inventory, state_folder: Path) -> Keyring:
        """Return the keys that an inventory means."""
        return cls(state_folder, inventory.signing_key, inventory.trusted_keys)

    @property
    def private_path(self) -> Path:
        """Where `new` puts the private key."""
        return self.state_folder / FOLDER / PRIVATE

    @property
    def list_path(self) -> Path:
        """Where the list of trusted keys lies, or would."""
        return self.named_list or self.state_folder / FOLDER / TRUSTED

    def signing_key(self) -> SigningKey | None:
        """Return the key that releases are signed with, or `None` if there is none.

        Raises:
            ConfigurationError: it cannot be read, others could read it, or it is no such key.

        """
        text = self.named_key or self._own_key()
        if text is None:
            return None
        from toolkit.trust.keys import read_public_key, read_signing_key  # noqa: PLC0415 - only where there is a key

        key = read_signing_key(text, name=owner())
        if self.named_key is None and (line := private_files.read(self._public_path)):
            return read_signing_key(text, name=read_public_key(line).name)
        known = next((each for each in self.trusted().trusted if each.raw == key.public.raw), None)
        return key if known is None else read_signing_key(text, name=known.name)

    def require_signing_key(self) -> SigningKey:
        """Return the key that releases are signed with.

        Raises:
            NotFoundError: there is none.
            ConfigurationError: as `signing_key`.

        """
        key = self.signing_key()
        if key is None:
            raise NotFoundError(_NO_KEY, hint=_MAKE_ONE)
        return key

    def trusted_text(self) -> str | None:
        """Return the list as nodes get it, or `None` where there is none, so that they take any egg.

        Raises:
            ConfigurationError: it cannot be read, or a line of it is wrong; the inventory names one that is not there.

        """
        text = private_files.read(self.list_path)
        if text is None and self.named_list is not None:
            raise ConfigurationError(
                f"there is no file {self.named_list}, which the inventory names as trusted_keys",
                hint="crawlctl keys trust KEY begins it",
            )
        if text is not None:
            _ = _read(text, self.list_path)
        return text

    def trusted(self) -> TrustedKeys:
        """Return the keys of the list; none where there is no list yet.

        Raises:
            ConfigurationError: it cannot be read, or a line of it is wrong.

        """
        return _read(private_files.read(self.list_path) or "", self.list_path)

    def new(self, name: str | None) -> PublicKey:
        """Make the signing key, and trust it.

        Raises:
            RefusedError: there is one already, or the inventory names one.
            ConfigurationError: the name cannot be one, or the files cannot be written.

        """
        from toolkit.trust.keys import new_key  # noqa: PLC0415 - only where there is a key

        if self.named_key is not None:
            raise RefusedError(
                "the inventory names a signing_key already", hint="crawlctl keys show shows its public half"
            )
        key = new_key(name or owner())
        private_files.make_folder(self.private_path.parent)
        if not private_files.create(self.private_path, key.written().reveal()):
            raise RefusedError(
                f"there is a signing key already: {self.private_path}", hint="crawlctl keys show shows its public half"
            )
        private_files.write(self._public_path, f"{key.public}\n")
        self.trust(key.public)
        return key.public

    def trust(self, key: PublicKey) -> bool:
        """Add a key to the list; return whether it is new there.

        Raises:
            RefusedError: it was revoked; only an editor takes that back.
            ConfigurationError: the list cannot be read or written.

        """
        from toolkit.trust.keys import with_trusted  # noqa: PLC0415 - only where there is a key

        if self.trusted().was_revoked(key.id):
            raise RefusedError(
                f"the key {key.id} of {key.name} was revoked", hint=f"the line stands in {self.list_path}"
            )
        return self._change(lambda text: with_trusted(text, key))

    def revoke(self, wanted: str) -> PublicKey:
        """Mark a key of the list as revoked, by its id or its owner's name; idempotent.

        Raises:
            NotFoundError: the list has no such key, or several of that name.
            ConfigurationError: the list cannot be read or written.

        """
        from toolkit.trust.keys import with_revoked  # noqa: PLC0415 - only where there is a key

        key = self.find(wanted)
        self._change(lambda text: with_revoked(text, key))
        return key

    def find(self, wanted: str) -> PublicKey:
        """Return the key of this id, or the beginning of one, or of this name.

        Raises:
            NotFoundError: there is none, or several.

        """
        lists = self.trusted()
        keys = (*lists.trusted, *lists.revoked)
        found = [key for key in keys if key.name == wanted] or [
            key for key in keys if re.fullmatch(r"[0-9a-f]{4,}", wanted) and key.id.startswith(wanted)
        ]
        if len(found) != 1:
            many = f"several keys are meant by {wanted!r}: {', '.join(key.id for key in found)}"
            raise NotFoundError(many if found else f"no key is named {wanted!r}", hint="crawlctl keys list shows them")
        return found[0]

    @property
    def _public_path(self) -> Path:
        return self.state_folder / FOLDER / PUBLIC

    def _own_key(self) -> Secret | None:
        text = private_files.read(self.private_path)
        if text is None:
            return None
        with private_files.disk_errors(self.private_path, "read"):
            is_open = self.private_path.stat().st_mode & private_files.OTHERS
        if is_open:
            raise ConfigurationError(
                f"{self.private_path} can be read by others",
                hint=f"chmod 600 {self.private_path}; if somebody may have read it, make another and revoke this one",
            )
        return Secret(text)

    def _change(self, change: Callable[[str], str]) -> bool:
        """Write the list anew, if that makes a difference."""
        # One who adds a key at the same time must not bring one back that is being revoked.
        with private_files.changing(self.state_folder / FOLDER):
            text = private_files.read(self.list_path)
            fresh = change(text if text is not None else _HEADING)
            if fresh == text:
                return False
            private_files.write(self.list_path, fresh)
            return True


def owner() -> str:
    """Return the name of a key that is made without one: whose it is, and on which machine."""
    name = re.sub(r"[^A-Za-z0-9_.@+-]", "-", f"{getpass.getuser()}@{socket.gethostname()}")
    return name.lstrip(".@+-")[:100] or "operator"


def _read(text: str, path: Path) -> TrustedKeys:
    from toolkit.trust.keys import read_trusted_keys  # noqa: PLC0415 - only where there is a key

    return read_trusted_keys(text, source=str(path))
