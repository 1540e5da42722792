"""The one door to SQL databases: opens them through SQLAlchemy, and tells their errors apart, without passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolkit.model.errors import (
    ConfigurationError,
    CrawlctlError,
    DatabaseUnreachableError,
    MissingExtraError,
    RefusedError,
    UsageError,
)
from toolkit.transfer.address import Place

if TYPE_CHECKING:
    from sqlalchemy import Engine

CONNECT_WITHIN_S = 5
ROWS_AT_ONCE = 1000
_MISSPELT = ("syntax error", "no such", "incomplete input", "unrecognized token", "ambiguous")


def open_engine(place: Place) -> Engine:
    """Return what connects to the database; nothing is sent yet. Dispose of it after use.

    PostgreSQL is spoken to through psycopg 3 unless the URL names another driver.

    Raises:
        MissingExtraError: SQLAlchemy is not installed.
        ConfigurationError: the database's driver is not installed.
        UsageError: the URL cannot be understood.

    """
    try:
        import sqlalchemy  # noqa: PLC0415 - loaded only where there is a database to open
        from sqlalchemy import exc  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("SQLAlchemy, which speaks to SQL databases,", "sql") from error
    try:
        url = sqlalchemy.make_url(place.url.reveal())
        if url.drivername in {"postgres", "postgresql"}:
            url = url.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {}
        if url.drivername.startswith("postgresql+psycopg") and "connect_timeout" not in url.query:
            options = {"connect_timeout": CONNECT_WITHIN_S}
        return sqlalchemy.create_engine(url, connect_args=options)
    except exc.NoSuchModuleError as error:
        scheme = place.shown.partition(":")[0]
        raise UsageError(
            f"there is no kind of database {scheme!r}", hint="a file, -, sqlite:///, postgresql:// or mongodb://"
        ) from error
    except ModuleNotFoundError as error:
        if error.name == "psycopg":
            raise MissingExtraError("psycopg, which speaks to PostgreSQL,", "sql") from error
        raise ConfigurationError(
            f"{place.shown}: its driver {error.name} is not installed",
            hint=f"install it, or name the driver that you have: {url.get_backend_name()}+DRIVER://",
        ) from error
    except (exc.ArgumentError, ValueError) as error:
        raise UsageError(f"{place.shown} cannot be understood as a database's URL") from error


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Turn the database's errors within the block into crawlctl's.

    Raises:
        DatabaseUnreachableError: it does not answer, or cannot do anything: wrong password, disk full, locked, ...
        RefusedError: it answers, and refuses this statement.

    """
    from sqlalchemy import exc  # noqa: PLC0415 - loaded with the engine

    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
        raise unreachable(place, error) from error
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise unreachable(place, error) from error
        raise RefusedError(f"{place.shown} refused: {_said(place, error)}") from error
    except exc.SQLAlchemyError as error:
        raise RefusedError(f"{place.shown}: {_said(place, error)}") from error


def unreachable(place: Place, error: Exception) -> DatabaseUnreachableError:
    """Return the error of a database that does not answer or cannot work, in its own words."""
    return DatabaseUnreachableError(f"{place.shown}: {_said(place, error)}")


def rows(place: Place, query: str) -> Iterator[Mapping[str, object]]:
    """Yield what a query returns, row by row as they come, each by its columns' names.

    Raises:
        CrawlctlError: see `open_engine` and `translated`; a query that the database does not understand is a
            `UsageError`, also one that returns no rows.

    """
    engine = open_engine(place)
    from sqlalchemy import exc, text  # noqa: PLC0415 - open_engine says what to do where it is not installed

    try:
        with translated(place), engine.connect() as connection:
            options = {"stream_results": True, "yield_per": ROWS_AT_ONCE}
            try:
                result = connection.execute(text(_literal(query)), execution_options=options)
            except (exc.ProgrammingError, exc.ArgumentError) as error:
                raise _bad_query(place, error) from error
            except exc.OperationalError as error:
                # SQLite says of a misspelt query what others say of a broken connection.
                if place.is_local_database and any(words in str(error.orig) for words in _MISSPELT):
                    raise _bad_query(place, error) from error
                raise
            if not result.returns_rows:
                raise UsageError("the query returns no rows", hint="SELECT address AS url FROM …")
            yield from (dict(row) for row in result.mappings())
    finally:
        engine.dispose()


def _literal(query: str) -> str:
    # SQLAlchemy would read `:name` as a parameter, of which there are none.
    return re.sub(r"(?<![:\w\\]):(?=\w)", r"\\:", query)


def _bad_query(place: Place, error: Exception) -> CrawlctlError:
    return UsageError(f"{place.shown} does not understand the query: {_said(place, error)}", hint="mind the quotes")


def _said(place: Place, error: Exception) -> str:
    """Return the first line of the database's own words; SQLAlchemy's would add the statement and its parameters."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return place.without_password(lines[0].strip()) if lines else type(error).__name__
