"""Items in a table of a SQL database: one row an item, known by crawl and key, so that writing it again adds nothing.

PostgreSQL and SQLite are tested; others get plain SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model.errors import CrawlctlError, RefusedError
from toolkit.model.names import MAX_NAME_CHARS, CrawlId
from toolkit.model.transfers import Item
from toolkit.transfer.address import DEFAULT_TABLE, Place
from toolkit.transfer.database import open_engine, translated
from toolkit.transfer.items import Written, document_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_KEY_CHARS = 64
_COLUMNS = ("crawl", "key", "item", "at")
_IGNORES_KNOWN = ("postgresql", "sqlite")

Row = Mapping[str, Any]


class SqlSink:
    """A table with the columns `crawl`, `key` (together the primary key), `item` (JSON) and `at`; made if missing."""

    def __init__(self, place: Place, *, table: str = DEFAULT_TABLE) -> None:
        self._place = place
        self._engine = open_engine(place)
        self._table = _table(table)
        self._is_ready = False
        self.identity = f"{place.identity}#{table}"
        self.shown = f"{place.shown}, table {table}"

    def begin(self, source: str) -> str:  # noqa: ARG002 - see Sink
        """Make the table if it is not there, and see that it has the shape; what it has is known by its keys.

        Raises:
            DatabaseUnreachableError: the database does not answer, or refuses us.
            RefusedError: there is a table of this name with another shape.

        """
        if not self._is_ready:
            with translated(self._place):
                self._make()
                self._check()
            self._is_ready = True
        return ""

    def write(self, source: str, crawl: CrawlId, items: Sequence[Item]) -> Written:  # noqa: ARG002 - see Sink
        """Insert the items whose keys are not there, in one transaction.

        Raises:
            DatabaseUnreachableError: the database does not answer, or cannot keep them; none were.
            RefusedError: it refuses an item, which is named; none were kept.

        """
        documents = [document_of(item.body) for item in items]
        rows = [
            {"crawl": crawl, "key": item.key, "item": document, "at": item.at}
            for item, (document, _) in zip(items, documents, strict=True)
        ]
        try:
            with translated(self._place), self._engine.begin() as connection:
                new = self._insert(connection, rows)
        except RefusedError as error:
            raise self._named(rows, error) from error
        altered = sum(is_altered and item.key in new for item, (_, is_altered) in zip(items, documents, strict=True))
        return Written(new=len(new), known=len(items) - len(new), altered=altered)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _make(self) -> None:
        from sqlalchemy import exc, inspect  # noqa: PLC0415 - loaded with the engine

        try:
            self._table.create(self._engine, checkfirst=True)
        except exc.DBAPIError:
            # Another drain made it at the same moment; anything else is a failure.
            if not inspect(self._engine).has_table(self._table.name, self._table.schema):
                raise

    def _check(self) -> None:
        from sqlalchemy import inspect  # noqa: PLC0415 - loaded with the engine

        found = inspect(self._engine)
        name, schema = self._table.name, self._table.schema
        columns = {column["name"]: column for column in found.get_columns(name, schema)}
        keys = [found.get_pk_constraint(name, schema)["constrained_columns"]]
        keys += [each["column_names"] for each in found.get_unique_constraints(name, schema)]
        problems = [f"no column {column}" for column in _COLUMNS if column not in columns]
        if not any(set(key) == {"crawl", "key"} for key in keys):
            problems.append("its primary key is not (crawl, key)")
        problems += [
            f"column {name} must not be empty"
            for name, column in columns.items()
            if name not in _COLUMNS and not column["nullable"] and column.get("default") is None
        ]
        if problems:
            raise RefusedError(
                f"{self.shown} has another shape than items need: {', '.join(problems)}",
                hint="name another with --table; it is made if it is not there",
            )

    def _insert(self, connection: Connection, rows: Sequence[Row]) -> set[str]:
        """Insert what is not there, and return its keys."""
        if connection.dialect.name in _IGNORES_KNOWN:
            statement = _insert_of(connection.dialect.name)(self._table)
            ignoring = statement.on_conflict_do_nothing(index_elements=["crawl", "key"])
            return set(connection.scalars(ignoring.returning(self._table.c.key), rows))
        return self._insert_plainly(connection, rows)

    def _insert_plainly(self, connection: Connection, rows: Sequence[Row]) -> set[str]:
        """Look which are there, then insert the others: two drains at once may collide, and one begins again."""
        from sqlalchemy import insert, select  # noqa: PLC0415 - loaded with the engine

        columns = self._table.c
        wanted = select(columns.key).where(columns.crawl == rows[0]["crawl"], columns.key.in_([r["key"] for r in rows]))
        known = set(connection.scalars(wanted))
        by_key = {row["key"]: row for row in rows if row["key"] not in known}
        if by_key:
            connection.execute(insert(self._table), list(by_key.values()))
        return set(by_key)

    def _named(self, rows: Sequence[Row], error: RefusedError) -> CrawlctlError:
        """Return the error with the key of the first item that the database refuses, if it is about one."""
        for row in rows:
            try:
                with translated(self._place), self._engine.connect() as connection:
                    self._insert(connection, [row])
                    connection.rollback()
            except RefusedError as own:
                text = f"{own.message}; it is item {row['key']}, and nothing of its batch was kept"
                return RefusedError(text, hint="JSON lines take any item: --to FILE.jsonl")
            except CrawlctlError as own:
                return own
        return error


def _table(name: str) -> Table:
    import sqlalchemy as sa  # noqa: PLC0415 - loaded with the engine
    from sqlalchemy.dialects import mysql, postgresql  # noqa: PLC0415

    schema, _, plain = name.rpartition(".")
    return sa.Table(
        plain,
        sa.MetaData(),
        sa.Column("crawl", sa.String(MAX_NAME_CHARS), primary_key=True),
        sa.Column("key", sa.String(_KEY_CHARS), primary_key=True),
        sa.Column("item", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=3), "mysql"), nullable=False),
        schema=schema or None,
    )


def _insert_of(dialect: str) -> Any:
    from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - loaded with the engine

    return postgresql.insert if dialect == "postgresql" else sqlite.insert
