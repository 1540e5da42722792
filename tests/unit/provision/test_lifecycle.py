"""What is taken off a host is the node's own, and a removal that was cut short can be done again."""

from __future__ import annotations

import pytest
from support.paper_host import bare_facts

from toolkit.provision.facts import EnvironmentFact, Facts, Manager, ServiceFact
from toolkit.provision.lifecycle import own_files, provisioned
from toolkit.provision.places import Places


@pytest.mark.parametrize(
    ("manager", "there", "gone"),
    [
        ("system", {"services": (ServiceFact("system", is_active=True, is_enabled=True),)}, {}),
        ("supervisor", {"environment": EnvironmentFact("e", {})}, {}),
    ],
)
def test_service_that_is_gone_already_is_not_stopped_again(
    manager: Manager, there: dict[str, object], gone: dict[str, object]
) -> None:
    def facts(more: dict[str, object]) -> Facts:
        return bare_facts(record={"service": manager}, **more)

    assert provisioned(facts(there)).has_service
    assert not provisioned(facts(gone)).has_service


@pytest.mark.parametrize("keeps_files", [True, False])
def test_programs_of_others_in_the_same_folder_stay(keeps_files: bool) -> None:  # noqa: FBT001 - a parameter
    words = own_files(Places("/srv/app"), keeps_files=keeps_files)

    assert {"/srv/app/bin/uv", "/srv/app/bin/python"} < set(words)
    assert not {"/srv/app", "/srv/app/bin"} & set(words)
    assert ("/srv/app/node" in words) is not keeps_files
    secrets = {"scrapyd.conf", "redis.url", "spider-redis.url", "index.url", "tls.key"}
    assert keeps_files is ({f"/srv/app/node/{name}" for name in secrets} <= set(words))
    assert words[-3:] == ["/srv/app/.provisioning", "/srv/app/.restart-due", "/srv/app/provisioned.json"]
