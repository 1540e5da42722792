"""A signature proves who released which bytes under which name, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.errors import UntrustedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.trust.keys import TrustedKeys, new_key
from toolkit.trust.signatures import MAX_CHARS, check_signature, countersign, sign, signers

ANN, BOB, EVE = new_key("ann"), new_key("bob"), new_key("eve")
SHOP, V1 = ProjectName("shop"), VersionName("v1")
DIGEST = "ab" * 32
SIGNED = sign(SHOP, V1, DIGEST, key=ANN)
TRUSTED = TrustedKeys((ANN.public, BOB.public))


def test_a_trusted_key_is_named_that_signed() -> None:
    assert check_signature(TRUSTED, SHOP, V1, DIGEST, SIGNED) == ANN.public.id
    assert check_signature(TRUSTED, SHOP, V1, DIGEST.upper(), SIGNED) == ANN.public.id


@pytest.mark.parametrize(
    ("project", "version", "digest"),
    [("shop2", "v1", DIGEST), ("shop", "v2", DIGEST), ("shop", "v1", "cd" * 32), ("sho", "pv1", DIGEST), ("", "", "")],
)
def test_it_proves_nothing_of_another_project_version_or_egg(project: str, version: str, digest: str) -> None:
    with pytest.raises(UntrustedError, match="made for other bytes, or for another project or version"):
        check_signature(TRUSTED, ProjectName(project), VersionName(version), digest, SIGNED)


@pytest.mark.parametrize("text", [None, "", "nonsense", "crawlctl-signature-1 x", "x" * (MAX_CHARS + 1)])
def test_what_is_no_signature_counts_as_none(text: str | None) -> None:
    with pytest.raises(UntrustedError, match="shop v1 is not signed"):
        check_signature(TRUSTED, SHOP, V1, DIGEST, text)


def test_a_stranger_and_a_revoked_key_are_told_apart() -> None:
    with pytest.raises(UntrustedError, match=f"the key {EVE.public.id} is not trusted here"):
        check_signature(TRUSTED, SHOP, V1, DIGEST, sign(SHOP, V1, DIGEST, key=EVE))
    with pytest.raises(UntrustedError, match=f"the key {ANN.public.id} of ann was revoked"):
        check_signature(TrustedKeys((BOB.public,), (ANN.public,)), SHOP, V1, DIGEST, SIGNED)


def test_a_stolen_key_id_is_no_signature() -> None:
    forged = sign(SHOP, V1, DIGEST, key=EVE).replace(EVE.public.id, ANN.public.id)
    with pytest.raises(UntrustedError):
        check_signature(TRUSTED, SHOP, V1, DIGEST, forged)


def test_one_trusted_signer_of_several_is_enough() -> None:
    both = countersign(sign(SHOP, V1, DIGEST, key=EVE), SHOP, V1, DIGEST, key=BOB)
    assert signers(both) == (EVE.public.id, BOB.public.id)
    assert check_signature(TRUSTED, SHOP, V1, DIGEST, both) == BOB.public.id


def test_signing_again_changes_nothing_and_a_bad_signature_of_ours_is_replaced() -> None:
    both = countersign(SIGNED, SHOP, V1, DIGEST, key=BOB)
    assert countersign(both, SHOP, V1, DIGEST, key=ANN) == both
    mended = countersign(sign(SHOP, VersionName("other"), DIGEST, key=ANN), SHOP, V1, DIGEST, key=ANN)
    assert mended == SIGNED


def test_signers_without_end_do_not_make_it_too_long() -> None:
    text = None
    for number in range(60):
        text = countersign(text, SHOP, V1, DIGEST, key=new_key(f"k{number}"))
    assert text is not None
    assert len(text) <= MAX_CHARS
    assert check_signature(TRUSTED, SHOP, V1, DIGEST, countersign(text, SHOP, V1, DIGEST, key=ANN)) == ANN.public.id


@given(st.text(max_size=300))
def test_no_text_is_mistaken_for_a_signature_or_breaks_the_check(text: str) -> None:
    with pytest.raises(UntrustedError):
        check_signature(TRUSTED, SHOP, V1, DIGEST, text)
