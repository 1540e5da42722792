"""Who belongs to a group, and which variables a host ends up with. Pure: drafts in, plain values out.

A host takes its variables from the defaults, then from its groups, then from itself; each level wins over the one
before, `labels` and `ssh` key by key. A group comes after every group that it is a child of; beyond that, the later in
the file wins.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

from toolkit.config.inventory.document import Place
from toolkit.config.inventory.drafts import GroupDraft, HostDraft
from toolkit.config.inventory.variables import Variables
from toolkit.model.names import NodeName


def cycles(groups: Sequence[GroupDraft]) -> tuple[tuple[Place, str], ...]:
    """Return each child that closes a circle of groups: where it is named, and the circle in words."""
    by_name = {group.name: group for group in groups}
    done: set[str] = set()
    found: list[tuple[Place, str]] = []
    for start in by_name:
        path: dict[str, Iterator[tuple[str, Place]]] = {}
        _enter(start, by_name, path, done)
        while path:
            name, children = next(reversed(path.items()))
            child, place = next(children, (None, None))
            if child is None or place is None:
                del path[name]
                done.add(name)
            elif child in path:
                circle = [*list(path)[list(path).index(child) :], child]
                found.append((place, f"groups hold each other in a circle: {' > '.join(circle)}"))
            else:
                _enter(child, by_name, path, done)
    return tuple(found)


def _enter(
    name: str, by_name: Mapping[str, GroupDraft], path: dict[str, Iterator[tuple[str, Place]]], done: set[str]
) -> None:
    if name not in done and name in by_name:
        path[name] = iter(by_name[name].children.items())


def outermost_first(groups: Sequence[GroupDraft]) -> tuple[GroupDraft, ...]:
    """Return the groups so that each comes after all that it is a child of, and else as in the file."""
    order = {group.name: index for index, group in enumerate(groups)}
    waits_for = dict.fromkeys(order, 0)
    for group in groups:
        for child in group.children:
            if child in waits_for:
                waits_for[child] += 1
    free = [order[name] for name, count in waits_for.items() if count == 0]
    heapq.heapify(free)
    sorted_groups: list[GroupDraft] = []
    while free:
        group = groups[heapq.heappop(free)]
        sorted_groups.append(group)
        for child in group.children:
            if child not in waits_for:
                continue
            waits_for[child] -= 1
            if waits_for[child] == 0:
                heapq.heappush(free, order[child])
    return tuple(sorted_groups)


def members(hosts: Sequence[HostDraft], groups: Sequence[GroupDraft]) -> dict[str, tuple[NodeName, ...]]:
    """Return every group's hosts, those of its children included, in the order of the file."""
    inside: dict[str, set[NodeName]] = {group.name: set(group.hosts) for group in groups}
    for group in reversed(outermost_first(groups)):
        for child in group.children:
            inside[group.name] |= inside.get(child, set())
    positions = {host.name: index for index, host in enumerate(hosts)}
    return {name: tuple(sorted(names, key=positions.__getitem__)) for name, names in inside.items()}


def inherited(
    hosts: Sequence[HostDraft], groups: Sequence[GroupDraft], *, defaults: Variables
) -> dict[NodeName, Variables]:
    """Return every host's variables, its own and those that it inherits."""
    inside = members(hosts, groups)
    layers: dict[NodeName, list[Variables]] = {host.name: [defaults] for host in hosts}
    for group in outermost_first(groups):
        if group.variables:
            for name in inside[group.name]:
                layers[name].append(group.variables)
    return {host.name: _merged([*layers[host.name], host.variables]) for host in hosts}


def _merged(layers: Iterable[Variables]) -> Variables:
    return {name: value for layer in layers for name, value in layer.items()}
