"""What the service writes about itself."""

import logging
import sys
from typing import Final, Literal, TextIO

import structlog

_QUIETER: Final = ("alembic", "asyncio", "kafka", "numba", "uvicorn")
"""Libraries that tell more than an operator wants to know: theirs begins at warnings."""


def configure_logs(level: str, form: Literal["auto", "console", "json"], *, stream: TextIO | None = None) -> None:
    """Write the service's own events and those of its libraries in one form.

    Parameters
    ----------
    level
        debug, info, warning or error: the least that is written.
    form
        ``console`` for people, ``json`` for one object a line; ``auto`` is the former on a terminal.
    stream
        Where to; standard error by default.
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
        # Without local variables: they would be pages, and may hold what is not to be shown.
        traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        last = [structlog.processors.ExceptionRenderer(traceback), structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.captureWarnings(capture=True)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIETER:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
