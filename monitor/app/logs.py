"""What the service writes about itself: one event a line, for people or as JSON.

Each JSON line begins with ``timestamp``, ``level``, ``logger``, ``event`` and ``instance``; what follows is of the
event (topic, partition, offset, model) or of the request that is being answered (request_id, principal).
"""

import json
import logging
import math
import re
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from functools import reduce
from types import TracebackType
from typing import Any, Final, Literal, TextIO

import structlog
from pydantic import SecretStr

from monitor.app.settings import Settings
from monitor.app.settings.fields import leaves
from monitor.clock import SystemClock
from monitor.redaction import Redactor
from monitor.sources.kafka_outage_filter import KafkaOutageFilter
from monitor.store.address import parse_url

_NOISY_LIBRARIES: Final = ("alembic", "asyncio", "httpx", "httpcore", "kafka", "numba", "uvicorn")
"""Libraries that log too much for an operator: only their warnings are logged."""

_FIRST: Final = ("timestamp", "level", "logger", "event", "instance")

_CREDENTIALS: Final = re.compile(
    r"cmk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}"  # an API key
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"  # a token
)

_MEMORY_ADDRESS: Final = re.compile(r"(?<= object) at 0x[0-9a-f]+")
"""In messages of libraries: useless to a reader, and it makes equal lines different."""

_processors: Final[list[structlog.typing.Processor]] = []
"""Always the same list: loggers that were used before keep the list with which they were created."""

_log = structlog.get_logger(__name__)


def configure_logs(
    level: str,
    form: Literal["auto", "console", "json"],
    *,
    stream: TextIO | None = None,
    instance: str | None = None,
    secrets: Iterable[str] = (),
) -> None:
    """Write the service's own events and those of its libraries in one form.

    Parameters
    ----------
    level
        debug, info, warning or error: lower levels are not written.
    form
        ``console`` for people, ``json`` for one object a line; ``auto`` is the former on a terminal.
    stream
        Standard error by default.
    instance
        Name of this replica, in JSON; that of the machine by default.
    secrets
        Texts that are replaced by ``***`` in every line, as API keys and tokens always are.
    """
    stream = sys.stderr if stream is None else stream
    for_people = form == "console" or (form == "auto" and stream.isatty())
    common: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor]
    if for_people:
        last = [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    else:
        # Without local variables: they are long, and may hold secrets.
        traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        last = [
            structlog.processors.ExceptionRenderer(traceback),
            _ordered(instance or socket.gethostname()),
            structlog.processors.JSONRenderer(serializer=_serialise),
        ]
    _processors[:] = [*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
    structlog.configure(
        processors=_processors,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        _Redacted(
            secrets,
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(KafkaOutageFilter(SystemClock()))
    logging.captureWarnings(capture=True)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _NOISY_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def log_uncaught_errors() -> None:
    """Log errors that end a thread or the process as events, instead of tracebacks of many lines."""

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        _log.error("the process ends with an uncaught error", exc_info=(kind, error, trace))

    def thread_ended(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread is not None else "unknown"
        error = arguments.exc_value or arguments.exc_type()
        _log.error(
            "a thread ended with an error", thread=name, exc_info=(arguments.exc_type, error, arguments.exc_traceback)
        )

    sys.excepthook = ended
    threading.excepthook = thread_ended


def secrets_of(settings: Settings) -> list[str]:
    """Return every secret in the settings."""
    values = (reduce(getattr, leaf.path, settings) for leaf in leaves())
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    url = parse_url(settings.store.url)
    passwords = (url.password, url.query.get("password"), url.query.get("sslpassword"))
    return [*secrets, *(str(password) for password in passwords if password)]


def _ordered(instance: str) -> structlog.typing.Processor:
    """Return a processor that adds the instance, and puts the fields that every line has first."""

    def order(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("instance", instance)
        return {**{key: event[key] for key in _FIRST if key in event}, **event}

    return order


class _Redacted(structlog.stdlib.ProcessorFormatter):
    """Hides secrets in the finished line, as the last step."""

    def __init__(self, secrets: Iterable[str], **options: Any) -> None:
        super().__init__(**options)
        self._redactor = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = _CREDENTIALS.sub("***", self._redactor.hide(super().format(record)))
        return _MEMORY_ADDRESS.sub("", line)


def _serialise(event: Mapping[str, Any], **options: Any) -> str:
    """One line of JSON that every parser accepts."""
    try:
        return json.dumps(event, allow_nan=False, **options)
    except (ValueError, TypeError):
        return json.dumps(_plain(event), default=repr, skipkeys=True)


def _plain(value: Any) -> Any:
    """Replace what JSON cannot hold: NaN and infinities, keys that are no text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
