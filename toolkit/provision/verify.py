"""Whether a provisioned node can be used from here: it answers under its name, and its cluster knows it."""

from __future__ import annotations

from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NodeAnswerError, NodeError, NodeUnauthorizedError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName

WITHIN_S = 5.0


def why_not_reached(host: Host) -> str | None:
    """Say why the node's own address does not serve from here; `None` where it answers under its name.

    Raises:
        NodeError: something answers there that is not this node, or wants other credentials.

    """
    node = ScrapydNode(host)
    try:
        name = node.load().node_name
    except (NodeUnauthorizedError, NodeAnswerError):
        raise
    except NodeError as error:
        return error.why
    finally:
        node.close()
    if NodeName(name) != host.name:
        raise NodeAnswerError(host.name, "daemonstatus.json", f"the node there calls itself {name}")
    return None
