"""Items in a collection of MongoDB: one document an item, its `_id` made of crawl and key, so that it is there once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolkit.model.errors import DatabaseUnreachableError, MissingExtraError, RefusedError, UsageError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Item
from toolkit.transfer.address import DEFAULT_TABLE, Place
from toolkit.transfer.items import Written, document_of

if TYPE_CHECKING:
    from pymongo.collection import Collection

ANSWER_WITHIN_MS = 5000
_ALREADY_THERE = 11000


class MongoSink:
    """A collection of documents `{_id: "<crawl>/<key>", crawl, item, at}`; MongoDB makes it with the first."""

    def __init__(self, place: Place, *, collection: str = DEFAULT_TABLE) -> None:
        self._place = place
        self._collection = _collection(place, collection)
        self.identity = f"{place.identity}#{collection}"
        self.shown = f"{place.shown}, collection {collection}"

    def begin(self, source: str) -> str:  # noqa: ARG002 - see Sink
        """See that the server answers and lets us in; what it has is known by its keys.

        Raises:
            DatabaseUnreachableError: it does not answer, or refuses us.

        """
        with self._translated():
            self._collection.database.command("ping")
            self._collection.find_one({"_id": ""}, {"_id": 1})
        return ""

    def write(self, source: str, crawl: CrawlId, items: Sequence[Item]) -> Written:  # noqa: ARG002 - see Sink
        """Insert the items whose keys are not there.

        Raises:
            DatabaseUnreachableError: the server does not answer, or cannot keep them; some may be kept.
            RefusedError: it refuses an item, which is named; the others are kept.

        """
        from pymongo.errors import BulkWriteError  # noqa: PLC0415 - loaded with the client

        made = [document_of(item.body) for item in items]
        documents = [
            {"_id": f"{crawl}/{item.key}", "crawl": crawl, "item": document, "at": item.at}
            for item, (document, _) in zip(items, made, strict=True)
        ]
        known: set[int] = set()
        with self._translated():
            try:
                self._collection.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                known = self._known(documents, error.details)
        altered = sum(changed for at, (_, changed) in enumerate(made) if at not in known)
        return Written(new=len(items) - len(known), known=len(known), altered=altered)

    def close(self) -> None:
        """Close the connections."""
        self._collection.database.client.close()

    def _known(self, documents: Sequence[dict[str, Any]], details: Any) -> set[int]:
        """Return the places of the documents that were there; any other failure is an error."""
        failures = list(details.get("writeErrors", ()))
        for each in failures:
            if each.get("code") != _ALREADY_THERE:
                said = self._place.without_password(str(each.get("errmsg", each)))
                raise RefusedError(f"{self.shown} refused item {documents[each['index']]['_id']}: {said}")
        if unsure := details.get("writeConcernErrors"):
            raise DatabaseUnreachableError(f"{self.shown} is not sure to keep the items: {unsure[0].get('errmsg')}")
        return {int(each["index"]) for each in failures}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from bson.errors import BSONError  # noqa: PLC0415 - loaded with the client
        from pymongo import errors  # noqa: PLC0415

        try:
            yield
        except (errors.ConnectionFailure, errors.OperationFailure, errors.ConfigurationError) as error:
            said = self._place.without_password(" ".join(str(error).partition(", Timeout:")[0].split()))
            raise DatabaseUnreachableError(f"{self.shown}: {said}") from error
        except (errors.PyMongoError, BSONError, OverflowError) as error:
            said = self._place.without_password(" ".join(str(error).split()))
            hint = "JSON lines take any item: --to FILE.jsonl"
            raise RefusedError(f"{self.shown} refused the items: {said}", hint=hint) from error


def _collection(place: Place, name: str) -> Collection[dict[str, Any]]:
    try:
        import pymongo  # noqa: PLC0415 - loaded only where there is a MongoDB to open
        from pymongo import errors  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("pymongo, which speaks to MongoDB,", "mongo") from error
    try:
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
            place.url.reveal(),
            serverSelectionTimeoutMS=ANSWER_WITHIN_MS,
            connectTimeoutMS=ANSWER_WITHIN_MS,
            tz_aware=True,
        )
        database = client.get_default_database()
        return database[name]
    except errors.PyMongoError as error:
        said = place.without_password(str(error))
        raise UsageError(f"{place.shown} cannot be used: {said}", hint="mongodb://user@host:27017/database") from error
    except ValueError as error:
        raise UsageError(f"{place.shown} cannot be understood as MongoDB's URL") from error
