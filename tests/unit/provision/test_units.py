"""The unit of a node's service keeps it from doing harm, and from nothing that it is there for."""

from __future__ import annotations

from dataclasses import replace

from support.paper_host import bare_facts, wanted

from toolkit.provision.units import unit_text


def test_a_node_may_get_no_more_rights() -> None:
    assert "NoNewPrivileges=yes" in unit_text(wanted(), bare_facts(), "system")


def test_a_node_that_dials_may_call_sudo() -> None:
    ordinary = wanted()
    dialling = replace(ordinary, host=replace(ordinary.host, node={"redial_command": "sudo -n redial"}))
    text = unit_text(dialling, bare_facts(), "system")
    # systemd implies NoNewPrivileges for each of the others, where the service is not root's.
    assert not [line for line in text.splitlines() if line.startswith(("NoNew", "Restrict", "Lock", "ProtectKernel"))]
