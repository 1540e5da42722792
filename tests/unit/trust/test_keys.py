"""Keys come from files of everyday tools, stand in lists that people edit, and never show their private half."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.trust.keys import (
    new_key,
    read_public_key,
    read_signing_key,
    read_trusted_keys,
    with_revoked,
    with_trusted,
)

ANN, BOB = new_key("ann@desk"), new_key("bob")


def written(form: PrivateFormat, *, passphrase: bytes | None = None) -> Secret:
    how = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return Secret(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, form, how).decode())


def test_a_key_is_read_back_from_the_file_that_it_was_written_to() -> None:
    again = read_signing_key(ANN.written(), name="ann@desk")
    assert again.public == ANN.public
    assert again.sign(b"x") == ANN.sign(b"x")


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_keys_of_openssl_and_ssh_keygen_serve(form: PrivateFormat) -> None:
    assert read_signing_key(written(form), name="ann").public.name == "ann"


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_a_key_with_a_passphrase_is_refused_with_that_reason(form: PrivateFormat) -> None:
    with pytest.raises(ConfigurationError, match="passphrase"):
        read_signing_key(written(form, passphrase=b"secret"), name="ann")


def test_a_key_of_another_kind_is_refused() -> None:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ConfigurationError, match="another kind"):
        read_signing_key(Secret(pem.decode()), name="ann")


@pytest.mark.parametrize("text", ["", "hunter2", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"])
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_signing_key(Secret(text), name="ann")
    assert "hunter2" not in str(caught.value)


def test_neither_printing_nor_logging_shows_the_private_half() -> None:
    body = ANN.written().reveal().splitlines()[1]
    assert body not in repr(ANN) + str(ANN) + str(ANN.written())


def test_a_public_key_is_one_line_that_reads_back() -> None:
    assert read_public_key(str(ANN.public)) == ANN.public
    assert str(ANN.public).split()[::2] == ["crawlctl-ed25519", "ann@desk"]


@pytest.mark.parametrize(
    "line", ["", "ssh-ed25519 AAAA x", "crawlctl-ed25519 AAAA ann", "crawlctl-ed25519 !!! ann", "crawlctl-ed25519 AAAA"]
)
def test_a_line_that_is_no_whole_key_is_refused(line: str) -> None:
    with pytest.raises(ConfigurationError):
        read_public_key(line)


@pytest.mark.parametrize("name", ["", "two words", "-x", "a" * 101, "tab\t", "new\nline", "#x"])
def test_a_name_that_would_break_a_list_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        new_key(name)


def test_a_list_keeps_its_remarks_and_says_where_it_is_wrong() -> None:
    text = with_trusted(with_trusted("# whom we trust\n\n", ANN.public), BOB.public)
    assert text.startswith("# whom we trust\n")
    assert read_trusted_keys(text, source="x").trusted == (ANN.public, BOB.public)
    with pytest.raises(ConfigurationError, match=r"keys\.txt:2: this is no public key"):
        read_trusted_keys("# fine\nnonsense\n", source="keys.txt")


def test_trusting_twice_and_revoking_twice_change_nothing_more() -> None:
    once = with_trusted("", ANN.public)
    assert with_trusted(once, ANN.public) == once
    gone = with_revoked(once, ANN.public)
    assert with_revoked(gone, ANN.public) == gone


def test_a_revoked_key_stays_so_even_where_it_is_listed_again() -> None:
    text = with_revoked(with_trusted("", ANN.public), ANN.public) + f"{ANN.public}\n"
    lists = read_trusted_keys(text, source="x")
    assert lists.trusted == ()
    assert lists.find(ANN.public.id) is None
    assert lists.was_revoked(ANN.public.id) == ANN.public


def test_a_key_can_be_revoked_that_was_never_listed() -> None:
    assert read_trusted_keys(with_revoked("", BOB.public), source="x").revoked == (BOB.public,)
