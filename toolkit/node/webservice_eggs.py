"""The endpoints about eggs: an upload that tells the truth, and lists that never make the node wait."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO

from scrapyd import webservice
from scrapyd.exceptions import EggNotFoundError, ProjectNotFoundError, RunnerError
from scrapyd.webservice import param

from toolkit.model.errors import ConflictError, EggError, StoreUnreachableError
from toolkit.model.names import ProjectName, VersionName
from toolkit.node.catalogue import Proof
from toolkit.node.eggstorage import MAX_SIGNATURE_CHARS, held_as, is_staged
from toolkit.node.forms import FormError, Part
from toolkit.node.requests import BoundedRequest
from toolkit.node.shelf import StagedEgg
from toolkit.node.webservice_endpoint import Endpoint, not_found, said
from toolkit.store.interfaces import Store

DIGEST_HEADER = "X-Egg-Digest"
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


def as_content(value: bytes | Part) -> BinaryIO:
    """Return an uploaded value as a file to read."""
    return io.BytesIO(value) if isinstance(value, bytes) else value.open()


class AddVersion(Endpoint):
    """`addversion.json`: ok means that the egg is here, whole, and that its spiders were listed from it.

    Otherwise nothing is left of it, and a version of that name is as it was. The SHA-256 of the egg, in hex, may come
    along as the field `digest` or the header `X-Egg-Digest`. Bytes that were proven before are not listed again. Where
    this node trusts certain keys, the field `signature` must be by one of them, or the egg is not even loaded.
    """

    async def render_POST(self, txrequest: Any) -> dict[str, Any]:  # noqa: N802 - Twisted's name
        """Read the form where it lies, then take the egg."""
        if isinstance(txrequest, BoundedRequest):
            try:
                await self.shelf.call(txrequest.read)
            except FormError as error:
                raise said(f"the form cannot be read: {error}") from error
        answer: dict[str, Any] = await self._add(txrequest)
        return answer

    @param("project")  # type: ignore[untyped-decorator]
    @param("version")  # type: ignore[untyped-decorator]
    @param("egg", type=as_content)  # type: ignore[untyped-decorator]
    @param("digest", required=False)  # type: ignore[untyped-decorator]
    @param("signature", required=False)  # type: ignore[untyped-decorator]
    async def _add(
        self, txrequest: Any, *, project: str, version: str, egg: BinaryIO, digest: str | None, signature: str | None
    ) -> dict[str, Any]:
        digest = digest or txrequest.getHeader(DIGEST_HEADER)
        with egg:
            _check(project, version, digest, signature)
            name = ProjectName(project)
            staged = await self.shelf.call(lambda: self.shelf.stage(name, egg, digest=digest))
        try:
            proof = await self._publish(staged, held_as(version), signature or None)
        finally:
            await self.shelf.call(lambda: self.shelf.discard(staged))
        self.root.update_projects()
        self.node.wake()
        return {"project": project, "version": version, "spiders": len(proof.spiders)}

    async def _publish(self, staged: StagedEgg, version: VersionName, signature: str | None) -> Proof:
        its = self.shelf
        its.trust.require(staged.project, version, staged.digest, signature)
        held = await its.call(lambda: its.held_digest(staged.project, version))
        if held != staged.digest:
            await self._refuse_change(staged, version, held)
        try:
            proof = await its.call(lambda: its.prove(staged))
        except EggError as error:
            # Scrapyd's own name for it, with which its clients' users are familiar.
            raise RunnerError(error.message) from error
        await its.call(lambda: its.publish(staged, version, proof, replaces=held, signature=signature))
        return proof

    async def _refuse_change(self, staged: StagedEgg, version: VersionName, held: str | None) -> None:
        """Refuse other bytes under a version on which somebody counts.

        Raises:
            ConflictError: it is a release of the cluster, or runs now; or the store, which would know, is away.

        """
        what = f"{staged.project} {version}"
        try:
            users = await self.ask(lambda store: _use(store, staged, version, is_held=held is not None))
        except StoreUnreachableError as error:
            if held is None:
                return
            raise ConflictError(
                f"{what} is held here with other bytes, and who uses them cannot be told now: {error.message}"
            ) from error
        if users is not None:
            raise ConflictError(f"{what} stays as it is: {users}; give the new egg another version")


class ListProjects(Endpoint, webservice.ListProjects):  # type: ignore[misc]
    """`listprojects.json`, as Scrapyd has it."""


class ListVersions(Endpoint, webservice.ListVersions):  # type: ignore[misc]
    """`listversions.json`, as Scrapyd has it: what lies in the folder of eggs, also what is not proven."""


class ListSpiders(Endpoint):
    """`listspiders.json`, from the catalogue; without a version, of the newest that is proven."""

    @param("project")  # type: ignore[untyped-decorator]
    @param("_version", dest="version", required=False, default=None)  # type: ignore[untyped-decorator]
    def render_GET(self, _txrequest: Any, project: str, version: str | None) -> dict[str, Any]:  # noqa: N802
        """Return the names."""
        self.require_project(project)
        catalogue = self.node.catalogue
        if version and self.shelf.eggs.file(project, version) is None:
            raise not_found("version", version)
        wanted = held_as(version) if version else catalogue.newest(project)
        spiders = catalogue.spiders(project, wanted) if wanted else None
        if spiders is None:
            reason = catalogue.reason(project, wanted) if wanted else None
            raise RunnerError(reason or f"the spiders of {project} {version or ''} were not listed yet")
        return {"spiders": list(spiders)}


class DeleteProject(Endpoint):
    """`delproject.json`: every egg of a project goes. What is active in the cluster comes back by itself."""

    @param("project")  # type: ignore[untyped-decorator]
    async def render_POST(self, _txrequest: Any, project: str) -> dict[str, Any]:  # noqa: N802 - Twisted's name
        """Remove the project."""
        return await self.drop(project)

    async def drop(self, project: str, version: str | None = None) -> dict[str, Any]:
        """Remove a version, or all of them."""
        if not project:
            raise not_found("project", project)
        try:
            await self.shelf.call(lambda: self.shelf.drop(project, version))
        except ProjectNotFoundError as error:
            raise not_found("project", project) from error
        except EggNotFoundError as error:
            raise not_found("version", version or "") from error
        self.root.update_projects()
        self.node.wake()
        return {}


class DeleteVersion(DeleteProject):
    """`delversion.json`: one egg goes. What is active in the cluster comes back by itself."""

    @param("project")  # type: ignore[untyped-decorator]
    @param("version")  # type: ignore[untyped-decorator]
    async def render_POST(self, _txrequest: Any, project: str, version: str) -> dict[str, Any]:  # noqa: N802
        """Remove the version."""
        return await self.drop(project, version)


def _check(project: str, version: str, digest: str | None, signature: str | None) -> None:
    if not project:
        raise said("project is invalid: it is empty")
    if not version or is_staged(version):
        raise said(f"version is invalid: {version!r} is no name for one")
    if signature is not None and len(signature) > MAX_SIGNATURE_CHARS:
        raise said(f"signature is invalid: it is longer than {MAX_SIGNATURE_CHARS} characters")
    if digest is not None and not _DIGEST.fullmatch(digest):
        raise said("digest is invalid: the SHA-256 of the egg in 64 hex digits is expected")


def _use(store: Store, staged: StagedEgg, version: VersionName, *, is_held: bool) -> str | None:
    """Say who counts on other bytes than these under a version, if anybody does."""
    release = store.releases.get(staged.project, version)
    if release is not None and release.digest != staged.digest:
        return "it is a release of the cluster, made of other bytes"
    offers = store.shared.eggs.offered() if store.shared is not None else ()
    if any(
        (each.project, each.version) == (staged.project, version) and each.digest != staged.digest for each in offers
    ):
        return "it is just being deployed, with other bytes"
    if is_held:
        for job in store.jobs.unfinished():
            if job.state.is_active and (job.project, job.version) == (staged.project, version):
                return f"job {job.id} runs it"
    return None
