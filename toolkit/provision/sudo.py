"""What sudo's refusals mean, in our words; pure."""

from __future__ import annotations

import re

from toolkit.model.errors import HostUnauthorizedError

_MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    (
        r"is not in the sudoers file|not allowed to (?:execute|run sudo)|may not run sudo",
        "{user} may not use sudo",
        None,
    ),
    (
        r"incorrect password|[Ss]orry, try again|Authentication failed|incorrect authentication",
        "sudo does not take the password of {user}",
        "correct ssh.sudo_password",
    ),
    (
        r"a password is required|no password was provided|terminal is required|askpass",
        "sudo wants a password of {user}",
        "set ssh.sudo_password, best from a command; or let {user} use sudo without one (NOPASSWD)",
    ),
    (r"you must have a tty|requiretty", "sudo there wants a terminal (requiretty)", "remove requiretty from sudoers"),
    (r"env: .*sudo.*No such file|sudo: .*not found", "there is no sudo, and {user} is not root", None),
    (r"sudo.*(?:setuid|effective uid|no new privileges)", "sudo cannot become root there", None),
)
_OTHERWISE = "log in as root (ssh.user), or let {user} use sudo; or do without: provision.service user"


def refusal(host: str, doing: str, stderr: str, *, user: str) -> HostUnauthorizedError | None:
    """Return the error that these words of sudo's mean; `None` where sudo refused nothing."""
    for pattern, why, hint in _MEANINGS:
        if re.search(pattern, stderr):
            return HostUnauthorizedError(
                host, doing, why.format(user=user), hint=(hint or _OTHERWISE).format(user=user)
            )
    return None
