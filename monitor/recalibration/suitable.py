"""Whether a method is for a model at all, as far as the model's declaration tells before anything is fitted.

What only its events tell (features, how many there are, which segments they really have) is found by the refit.
"""

from collections.abc import Collection, Mapping
from typing import Any

from monitor.errors import InputError
from monitor.maps import METHODS, Method
from monitor.maps.identity import Identity


def check_suits(method: str, options: Mapping[str, Any], *, classes: int, segments: Collection[str]) -> None:
    """Check that a map could be fitted to the predictions of a model that is so declared.

    Parameters
    ----------
    method, options
        A method of :data:`monitor.maps.METHODS`, and options that are its own.
    classes
        How many classes the model is declared to tell apart; 0 for one probability, P(y = 1).
    segments
        Its declared segment keys: only those are kept with the events that maps are fitted on.

    Raises
    ------
    InputError
        None could. Names the method or the option, and those that would do.
    """
    chosen = METHODS[method]
    if not _reads(chosen, classes):
        these = f"over {classes} classes" if classes else "P(y = 1)"
        declared = "these" if classes else "no classes"
        raise InputError(
            f"method {method!r} is not for predictions {these}, and the model is declared to have {declared}: take one "
            f"of {_others(classes, segments)}"
        )
    if not chosen.needs_segments:
        return
    if not segments:
        raise InputError(
            f"method {method!r} needs segments, and the model is declared to have none: declare them, or take one of "
            f"{_others(classes, segments)}"
        )
    asked = options.get("segment")
    if asked is not None and asked not in segments:
        raise InputError(
            f"option segment of {method} must be one of {', '.join(sorted(segments))}, as declared, got {asked!r}"
        )


def _reads(method: Method, classes: int) -> bool:
    return method.many_classes if classes else method.binary


def _others(classes: int, segments: Collection[str]) -> str:
    """The methods that would do, by name."""
    return ", ".join(
        name
        for name, each in METHODS.items()
        if name != Identity.method and _reads(each, classes) and (segments or not each.needs_segments)
    )
