"""What an exception of the redis library means to an operator: where, why, and what to do about it."""

from __future__ import annotations

from redis import exceptions

from toolkit.model.errors import StoreUnreachableError
from toolkit.store.address import RedisAddress

_AUTH_HINT = "give the password in the inventory's redis URL, best as {env: NAME} or {file: PATH}"
_WORDS = (
    # The first word of Redis' answer, in whatever exception the library wraps it; what it means; what to do.
    ("NOAUTH", "it wants a password and the URL has none", _AUTH_HINT),
    ("WRONGPASS", "it refuses the password", _AUTH_HINT),
    ("NOPERM", "this user may not do that", "give the user the rights +@all ~crawlctl:* in its ACL"),
    ("READONLY", "it is a read-only replica", "point the redis URL at the master, or use redis+sentinel://"),
    ("OOM", "its memory is full (maxmemory)", "raise maxmemory, or remove what else is kept in it"),
    ("MISCONF", "it cannot write to its disk and refuses changes", "free its disk, then look at its log"),
    ("LOADING", "it is still loading its data", "try again in a moment"),
    ("BUSY", "it is busy with somebody's long script", "wait, or run SCRIPT KILL there"),
    ("NOREPLICAS", "too few replicas are connected for it to accept changes", "bring its replicas back"),
    ("MASTERDOWN", "it is a replica and its master is down", "bring the master back, or use redis+sentinel://"),
    ("CLUSTERDOWN", "its Redis Cluster is down", "look at CLUSTER INFO there"),
    ("MOVED", "it is a node of a Redis Cluster that does not hold crawlctl's keys", "name the node that does"),
    ("ASK", "its Redis Cluster is moving crawlctl's keys", "try again when that is done"),
    ("WRONGTYPE", "somebody else wrote to crawlctl's keys", "use another database or another cluster name"),
    ("DENIED", "it runs in protected mode: without a password it talks to its own machine only", _AUTH_HINT),
)
_PHRASES = (
    ("Connection refused", "nothing listens there", "is it running? crawlctl up starts a local one"),
    ("invalid username-password", "it refuses the password", _AUTH_HINT),
    ("invalid password", "it refuses the password", _AUTH_HINT),
    ("without any password configured", "the URL has a password, but it has none set", "remove it from the redis URL"),
    ("DB index is out of range", "it has no such database", "use a smaller number at the end of the redis URL, say /0"),
    ("max number of clients", "it has no connection left (maxclients)", "close other clients, or raise maxclients"),
    ("CERTIFICATE_VERIFY_FAILED", "its TLS certificate is not trusted", "name its authority: ?ssl_ca_certs=/path.pem"),
    ("SSL", "no TLS connection can be made", "is it redis:// rather than rediss://?"),
    ("No master found", "Sentinel knows no live master for it", "check the service's name, and SENTINEL MASTERS there"),
    ("Name or service not known", "its host name is unknown", "check the host in the redis URL"),
    ("Temporary failure in name resolution", "its host name cannot be looked up now", "check the name server"),
    ("unknown command", "it lacks a command that crawlctl needs", "Redis 7.0 or Valkey 7.2 is the least"),
    ("No route to host", "no network leads there", "check the network and the host in the redis URL"),
    ("Network is unreachable", "no network leads there", "check the network and the host in the redis URL"),
    ("No such file or directory", "there is no such socket", "is it running? check the path in the redis URL"),
    ("Permission denied", "its socket may not be used by this user", "check the socket's owner and mode"),
)
_NOT_REDIS_HINT = "check host and port in the redis URL; rediss:// if it speaks TLS"


def store_error(error: Exception, address: RedisAddress, *, waited_s: float) -> StoreUnreachableError:
    """Return the error to raise instead: it names the place, the reason and a way out, and holds no credential.

    After a timeout or a broken connection it is unknown whether a write was done, and the message says so.
    """
    why, hint = _meaning(error, waited_s)
    return StoreUnreachableError(f"the shared store at {address}: {why}", hint=hint)


def _meaning(error: Exception, waited_s: float) -> tuple[str, str]:
    text = _said(error)
    first = text.removeprefix("-").partition(" ")[0]
    for word, why, hint in _WORDS:
        if first == word:
            return why, hint
    for phrase, why, hint in _PHRASES:
        if phrase.lower() in text.lower():
            return why, hint
    if isinstance(error, exceptions.InvalidResponse) or "Protocol Error" in text:
        return "what answers there is not a Redis", _NOT_REDIS_HINT
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return f"no answer within {waited_s:.1f} s; whether a change was made is unknown", "is it stopped or cut off?"
    if isinstance(error, exceptions.ConnectionError | OSError):
        return f"the connection broke ({text}); whether a change was made is unknown", "is it running? look at its log"
    return f"it refused: {text}", "look at its log"


def _said(error: BaseException) -> str:
    """Return the texts of the error and what caused it, for the library sometimes hides the telling one."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < 4:  # noqa: PLR2004 - deeper causes tell nothing more
        texts.append(str(seen))
        seen = seen.__cause__ or seen.__context__
    return "; ".join(text for text in dict.fromkeys(texts) if text)
