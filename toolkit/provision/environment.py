"""The environment of a process that stays: what a program needs to run here, and nothing else.

Scrapyd hands its whole environment to every spider (`environ.py`), and a node on another machine would not have the
operator's variables either. So only names of this list pass; tokens, passwords and `SCRAPY*` settings stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping

_KEPT = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TEMP",
        "TMP",
        "VIRTUAL_ENV",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NIX_SSL_CERT_FILE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    }
)
_KEPT_PREFIXES = ("LC_", "PYTHON")


def lean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a node or a Redis server may see.

    Proxies pass in either case, with the credentials that they may hold: a spider cannot fetch without them.
    """
    return {name: value for name, value in environ.items() if _is_kept(name)}


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_PREFIXES) or (name.endswith("_proxy") and name.upper() in _KEPT)
