"""Clocks: that of this machine against others."""

from monitor.app.checks.base import Finding, Surroundings, ok, warn


def compare_clocks(around: Surroundings, whose: str, their_ms: int, began_ms: int, ended_ms: int) -> Finding:
    """Compare with a time that another clock told between two moments of ours."""
    # It was told at some moment in between: what lies outside is difference for certain.
    ahead_ms = max(their_ms - ended_ms, 0) - max(began_ms - their_ms, 0)
    seconds = ahead_ms / 1000
    if abs(seconds) <= around.thresholds.skew_seconds:
        return ok("clock", f"{whose} clock and this machine's differ by {abs(seconds):.1f} s at most")
    behind = "ahead of" if seconds > 0 else "behind"
    return warn(
        "clock",
        f"{whose} clock is {abs(seconds):,.1f} s {behind} this machine's: synchronise both (NTP); leases of refits,"
        " expiry of keys and the age of data are judged by them",
    )
