"""Where a value comes from when it does not stand in the inventory: the environment, a file or a command.

What was found is never part of a message: it may be a secret.
"""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from toolkit.config.nearest import did_you_mean
from toolkit.model.errors import ConfigurationError

COMMAND_DEADLINE_S = 10.0
_MAX_BYTES = 65_536


class References:
    """Looks values up for one load of one inventory; each command runs once, however often it is named."""

    def __init__(self, *, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._printed: dict[tuple[str, ...], str | ConfigurationError] = {}

    def variable(self, name: str) -> str | None:
        """Return an environment variable, or `None` if it is unset or empty."""
        return self._environ.get(name) or None

    def missing_variable(self, name: str) -> ConfigurationError:
        """Describe a variable that is unset or empty, with the nearest one that is set."""
        if name in self._environ:
            return ConfigurationError(f"the environment variable {name} is empty")
        return ConfigurationError(f"the environment variable {name} is not set{did_you_mean(name, self._environ)}")

    def file(self, name: str, *, is_secret: bool) -> str:
        """Return a file's text without the line break at its end; a relative path starts at the inventory's folder.

        Raises:
            ConfigurationError: no such ordinary file, or it may not be read, holds nothing, is too large or no UTF-8,
                or others than its owner may read it although it is secret.

        """
        try:
            path = self._folder / Path(name).expanduser()
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{path} is not an ordinary file")
            if is_secret and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
                raise ConfigurationError(f"{path} holds a secret that others may read: chmod 600 {path}")
            with path.open("rb") as stream:
                return _cleaned(stream.read(_MAX_BYTES + 1), f"the file {path}")
        except (OSError, ValueError, RuntimeError) as error:
            # Without a known user, `~` has no home; with a NUL, no path can be looked up.
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"the file {name} cannot be read: {why}") from error

    def command(self, argv: tuple[str, ...]) -> str:
        """Return what a command prints, without the line break at its end; it runs in the inventory's folder.

        No shell is involved, its input is empty, and its messages are dropped.

        Raises:
            ConfigurationError: it cannot be started, fails, prints nothing, too much or no UTF-8, or takes too long.

        """
        if argv not in self._printed:
            try:
                self._printed[argv] = self._run(argv)
            except ConfigurationError as error:
                self._printed[argv] = error
        printed = self._printed[argv]
        if isinstance(printed, ConfigurationError):
            raise printed
        return printed

    def _run(self, argv: tuple[str, ...]) -> str:
        # Arguments are not repeated: a secret may be among them.
        what = f"the command {argv[0]}"
        try:
            done = subprocess.run(
                argv,
                cwd=self._folder,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # Its output so far hangs on the exception, so that is not kept as the cause.
            raise ConfigurationError(f"{what} did not end within {COMMAND_DEADLINE_S:g} s") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"{what} cannot be started: {why}") from error
        if done.returncode < 0:
            raise ConfigurationError(f"{what} was ended by signal {-done.returncode}")
        if done.returncode != 0:
            raise ConfigurationError(f"{what} failed with exit code {done.returncode}")
        return _cleaned(done.stdout, what)


def _cleaned(content: bytes, what: str) -> str:
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{what} gives more than {_MAX_BYTES} bytes")
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        # The cause would show the bytes.
        raise ConfigurationError(f"{what} gives no UTF-8 text") from None
    if not text:
        raise ConfigurationError(f"{what} gives nothing")
    return text
