"""What an exception of the redis library means to an operator: where, why, and what to do about it."""

from __future__ import annotations

from redis import exceptions

from toolkit.model.errors import StoreUnreachableError
from toolkit.store.address import RedisAddress

ACL_RULES = "~crawlctl:* &crawlctl:* +@all -@admin"
"""The rights that a Redis user needs here: crawlctl's keys, and the channel that wakes its nodes."""

_RIGHTS_HINT = f"crawlctl redis users makes users that have them; one of your own needs the ACL rules {ACL_RULES}"
_AUTH_HINT = "give user and password in the inventory's redis URL, best as {env: NAME} or {file: PATH}"
LACKS = "it lacks a command that crawlctl needs"
_HOST_HINT = "check host and port in the redis URL"
_LOG_HINT = "look at its log"
# The text of the error or of what caused it; what it means; what to do.
_PHRASES = (
    ("Connection refused", "nothing listens there", "is it running? crawlctl up starts a local one"),
    ("Authentication required", "it wants a password and the URL has none", _AUTH_HINT),
    ("without any password configured", "the URL has a password, but it has none set", "remove it from the redis URL"),
    ("DB index is out of range", "it has no such database", "use a smaller number at the end of the redis URL, say /0"),
    ("max number of clients", "it has no connection left (maxclients)", "close other clients, or raise maxclients"),
    ("CERTIFICATE_VERIFY_FAILED", "its TLS certificate is not trusted", "name its authority: ?ssl_ca_certs=/path.pem"),
    ("SSL", "no TLS connection can be made", "is it redis:// rather than rediss://, or a wrong TLS file?"),
    ("No master found", "Sentinel knows no live master for it", "check the service's name, and SENTINEL MASTERS there"),
    ("Name or service not known", "its host name is unknown", _HOST_HINT),
    ("No address associated", "its host name is unknown", _HOST_HINT),
    ("Temporary failure in name resolution", "its host name cannot be looked up now", "check the name server"),
    ("unknown command", LACKS, "Redis 7.0 or Valkey 7.2 is the least"),
    ("ACL failure in script", "this user may not do that", _RIGHTS_HINT),
    ("No route to host", "no network leads there", _HOST_HINT),
    ("Network is unreachable", "no network leads there", _HOST_HINT),
    ("No such file or directory", "there is no such socket", "is it running? check the path in the redis URL"),
    ("Permission denied", "this user may not use it", "look at owner and mode of the socket and the TLS files"),
    ("Protocol Error", "what answers there is not a Redis", f"{_HOST_HINT}; rediss:// if it speaks TLS"),
    (
        "Connection closed by server",
        "it closed the connection",
        f"is it a Redis? rediss:// if it has TLS; {_HOST_HINT}",
    ),
)
# What the library names by a class, whose text lacks the first word of the answer; a class stands before its parents.
_CLASSES = (
    (exceptions.AuthenticationError, "it refuses the password", _AUTH_HINT),
    (exceptions.AuthorizationError, "this user may not do that", _AUTH_HINT),
    (exceptions.NoPermissionError, "this user may not do that", _RIGHTS_HINT),
    (exceptions.ReadOnlyError, "it is a read-only replica", "name the master in the redis URL, or redis+sentinel://"),
    (exceptions.OutOfMemoryError, "its memory is full (maxmemory)", "raise maxmemory, or remove what else it holds"),
    (exceptions.BusyLoadingError, "it is still loading its data", "try again in a moment"),
    (exceptions.MasterDownError, "it is a replica and its master is down", "bring it back, or use redis+sentinel://"),
    (exceptions.ClusterDownError, "its Redis Cluster is down", "look at CLUSTER INFO there"),
    (exceptions.MovedError, "it is the wrong node of a Redis Cluster for crawlctl's keys", "name the right one"),
    (exceptions.AskError, "its Redis Cluster is moving crawlctl's keys", "try again when that is done"),
    (exceptions.InvalidResponse, "what answers there is not a Redis", f"{_HOST_HINT}; rediss:// if it speaks TLS"),
)
# The first word of an answer for which the library has no class.
_WORDS = {
    "MISCONF": ("it cannot write to its disk and refuses changes", f"free its disk, then {_LOG_HINT}"),
    "BUSY": ("it is busy with somebody's long script", "wait, or run SCRIPT KILL there"),
    "NOREPLICAS": ("too few replicas are connected for it to accept changes", "bring its replicas back"),
    "WRONGTYPE": ("somebody else wrote to crawlctl's keys", "use another database or another cluster name"),
    "DENIED": ("it is in protected mode: without a password it talks to its own machine only", _AUTH_HINT),
}
_UNKNOWN = "; whether the change was made is unknown"


def store_error(
    error: Exception, address: RedisAddress, *, waited_s: float, is_write: bool = False
) -> StoreUnreachableError:
    """Return the error to raise instead: it names the place, the reason and a way out, and holds no credential.

    Where the answer to a write was lost, the message says that it may have been done.
    """
    why, hint = _meaning(error, waited_s=waited_s, lost=_UNKNOWN if is_write else "")
    return StoreUnreachableError(f"the shared store at {address}: {why}", hint=hint)


def _meaning(error: Exception, *, waited_s: float, lost: str) -> tuple[str, str]:
    text = _said(error)
    for phrase, why, hint in _PHRASES:
        if phrase.lower() in text.lower():
            return why + (lost if phrase == "Connection closed by server" else ""), hint
    for kind, why, hint in _CLASSES:
        if isinstance(error, kind):
            return why, hint
    word = text.partition(" ")[0].removeprefix("-")
    if word in _WORDS:
        return _WORDS[word]
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return f"no answer within {waited_s:.1f} s{lost}", "is it stopped, or cut off by a firewall?"
    if isinstance(error, exceptions.ConnectionError | OSError):
        return (
            f"the connection broke ({text}){lost}",
            f"is it running, and without TLS? rediss:// if it has TLS; {_LOG_HINT}",
        )
    return f"it refused: {text}", _LOG_HINT


def _said(error: BaseException) -> str:
    """Return the texts of the error and what caused it, for the library sometimes hides the telling one."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < 4:  # noqa: PLR2004 - deeper causes tell nothing more
        texts.append(str(seen))
        seen = seen.__cause__ or seen.__context__
    return "; ".join(text for text in dict.fromkeys(texts) if text)
