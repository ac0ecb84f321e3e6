"""Who asks. The one place that knows."""

from typing import Final

from fastapi import Request

ANONYMOUS: Final = "anonymous"


def actor_of(request: Request) -> str:
    """The name under which the audit trail keeps what a request did.

    There is no log-in yet, and a name that anybody can claim would be worse than none: everybody is anonymous.
    """
    del request
    return ANONYMOUS
