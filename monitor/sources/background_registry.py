"""A schema registry that is asked in a thread of its own.

A registry that is slow, or does not answer before its timeout, holds up only the partitions that wait for a schema:
the thread that reads the log goes on with the others.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from monitor.errors import SchemaUnavailable
from monitor.events.schemas import Registry, Schema, SchemaId

_WAIT_SECONDS: Final = 0.1
"""How long a request is waited for: a registry that is well answers sooner, and no partition has to wait."""


class BackgroundRegistry:
    """Schemas by id, from a registry that only one thread asks.

    Parameters
    ----------
    registry
        The registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schema-registry")
        self._requests: dict[SchemaId, Future[Schema | None]] = {}
        """Requests that are not answered yet, and those that were answered with a schema."""

    def schema(self, identifier: SchemaId) -> Schema | None:
        """The schema of this id; None if the registry says that there is none.

        Raises
        ------
        SchemaUnavailable
            It cannot be had now, or not yet: ask again later.
        """
        request = self._requests.get(identifier)
        if request is None:
            request = self._requests[identifier] = self._thread.submit(self._registry.schema, identifier)
            wait([request], _WAIT_SECONDS)
        if not request.done():
            raise SchemaUnavailable(f"the schema registry has not answered yet about the schema of id {identifier}")
        if request.exception() is not None or request.result() is None:
            del self._requests[identifier]  # it is asked again
        return request.result()
