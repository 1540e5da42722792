"""What of Scrapyd's environment a project's code gets to see. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_SECRETS = frozenset({"SCRAPYD_USERNAME", "SCRAPYD_PASSWORD"})
_OWN_PREFIX = "CRAWLCTL_"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the node's credentials and without what crawlctl's own variables say."""
    return {
        name: value for name, value in environment.items() if name not in _SECRETS and not name.startswith(_OWN_PREFIX)
    }
