"""The places of nodes that change their address now, in Redis: a sorted set that forgets whoever did not come back."""

from __future__ import annotations

from toolkit.model.calls import RedialPlace
from toolkit.model.names import NodeName
from toolkit.store.connect import RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms


class RedisRedials:
    """Keeps what `Redials` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def begin(self, node: NodeName, *, share: float, term_s: float) -> RedialPlace:
        """See `Redials.begin`."""
        keys = [self._keys.redials, self._keys.nodes, self._keys.beats]
        is_ours, taken, places = self._door.run("begin_redial", keys=keys, args=[node, repr(share), ttl_ms(term_s)])
        return RedialPlace(bool(is_ours), int(taken), int(places))

    def end(self, node: NodeName) -> None:
        """See `Redials.end`."""
        self._door.ask("ZREM", self._keys.redials, node)
