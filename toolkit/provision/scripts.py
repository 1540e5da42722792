"""The few shell scripts that run on hosts, and how words become one command line. Pure: nothing is run here.

Plain POSIX sh, since a host has nothing else for certain. What is secret arrives on the script's stdin, never in a
word.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

# Messages are recognised and shown, so they come in one language.
IN_ENGLISH = ("env", "LC_MESSAGES=C", "LANGUAGE=C")
NOT_THERE = 44
TOO_LARGE = 45
CUT_SHORT = 46

BEGUN = b"\x01crawlctl\x01"
"""Written by our scripts first: what comes before it on stdout is the login shell's own chatter."""

INPUT_FOLLOWS = "crawlctl: input follows"
_BEGIN = r"printf '\001crawlctl\001'"

_WATCHED = f"""
{_BEGIN}
exec 3<&0 </dev/null
"$@" 3<&- &
c=$!
( cat <&3; trap "" TERM; kill -TERM 0; sleep 3; kill -KILL 0 ) >/dev/null 2>&1 &
w=$!
exec 3<&-
wait $c
code=$?
kill -KILL $w 2>/dev/null
exit $code
"""
"""Runs a command without input, and ends its process group when stdin ends: when the connection does."""

_FED = f"""{_BEGIN}
exec "$@"
"""

_AFTER_PASSWORD = f"""
while IFS= read -r line && [ "$line" != "{INPUT_FOLLOWS}" ]; do :; done
exec "$@"
"""
"""Runs a command with what stdin holds after the password, whether or not sudo wanted that."""

_READ = f"""
[ -e "$1" ] || exit {NOT_THERE}
size=$(wc -c <"$1") || exit 1
[ "$size" -le "$2" ] || exit {TOO_LARGE}
exec cat "$1"
"""

_WRITE = f"""
umask 077
if [ -d "$1" ]; then echo "it is a folder" >&2; exit 1; fi
fresh=$(mktemp "$1.XXXXXXXX") || exit 1
trap 'rm -f "$fresh"' EXIT
trap 'exit 1' HUP INT TERM
# Where the connection broke nobody hears what is said here, and saying it must not be the end.
trap '' PIPE
cat >"$fresh" || exit 1
size=$(wc -c <"$fresh")
[ "$size" -eq "$2" ] || {{ echo "only $size of $2 bytes came" >&2; exit {CUT_SHORT}; }}
[ -z "$4" ] || chown "$4" "$fresh" || exit 1
chmod "$3" "$fresh" && mv -f "$fresh" "$1" && trap - EXIT
"""
"""Writes stdin to a file beside its place, and moves it there only if all of it came."""

_AS_USER = """
cd / || exit 1
HOME=$(getent passwd "$1" 2>/dev/null | cut -d: -f6)
[ -n "$HOME" ] || HOME=/
export HOME USER="$1" LOGNAME="$1"
user=$1
shift
if command -v setpriv >/dev/null 2>&1; then
  exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
fi
if command -v runuser >/dev/null 2>&1; then exec runuser -u "$user" -- "$@"; fi
line=
for word in "$@"; do line="$line '$(printf %s "$word" | sed "s/'/'\\\\\\\\''/g")'"; done
exec su -s /bin/sh -c "exec $line" "$user"
"""
"""Runs a command as another user, for root; sudo need not be there."""


@dataclass(frozen=True, slots=True)
class Becoming:
    """How one becomes somebody else on a host: nothing to do as root, else sudo, which may ask for a password."""

    is_root: bool = False
    asks_password: bool = False


def watched(words: Sequence[str]) -> list[str]:
    """Return words that run a command without input, and end it when their own stdin ends."""
    return ["sh", "-c", _WATCHED, "crawlctl", *words]


def fed(words: Sequence[str]) -> list[str]:
    """Return words that run a command with their stdin."""
    return ["sh", "-c", _FED, "crawlctl", *words]


def reading(path: str, max_bytes: int) -> list[str]:
    """Return words that print a file; exit code `NOT_THERE` or `TOO_LARGE` where they cannot."""
    return ["sh", "-c", _READ, "crawlctl", path, str(max_bytes)]


def writing(path: str, *, size: int, mode: int, owner: str | None) -> list[str]:
    """Return words that put their stdin in a file's place, if it is so many bytes; the old file stays otherwise."""
    return ["sh", "-c", _WRITE, "crawlctl", path, str(size), f"{mode:o}", owner or ""]


def become(words: Sequence[str], how: Becoming, *, user: str | None = None) -> list[str]:
    """Return words that run the command as root, or as the user named.

    Where sudo asks for a password, stdin must begin with `password_lines`, of which the command sees nothing.
    """
    if how.is_root:
        return list(words) if user in {None, "root"} else ["sh", "-c", _AS_USER, "crawlctl", user or "", *words]
    asking = ["-k", "-S", "-p", ""] if how.asks_password else ["-n"]
    whom = [] if user is None else ["-H", "-u", user]
    inner = words if user is None else ["sh", "-c", 'cd / && exec "$@"', "crawlctl", *words]
    if how.asks_password:
        inner = ["sh", "-c", _AFTER_PASSWORD, "crawlctl", *inner]
    return ["sudo", *asking, *whom, "--", *inner]


def password_lines(password: str) -> bytes:
    """Return what stdin begins with where sudo asks for a password."""
    return f"{password}\n{INPUT_FOLLOWS}\n".encode()


def line(words: Sequence[str]) -> str:
    """Return one line that every login shell takes apart into these words again."""
    return shlex.join([*IN_ENGLISH, *words])
