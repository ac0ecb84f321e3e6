"""Who asks, as the audit trail has it."""

from fastapi import Request

from monitor.http.access import principal_of


def actor_of(request: Request) -> str:
    """The name under which the audit trail keeps what a request did.

    Such as ``key:nightly-refits``; ``anonymous`` where access control is off.
    """
    return principal_of(request).name
