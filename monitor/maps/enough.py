"""Whether there is enough to fit a map on."""

import numpy as np

from monitor.errors import NotEnoughData
from monitor.maps.labelled import LabelledEvents


def require_outcomes(events: LabelledEvents, least: int, each: int = 1) -> None:
    """Check that there are so many events, and so many of each outcome; of many classes, of at least two of them.

    Raises
    ------
    NotEnoughData
        There are fewer. Says what is there, and what is wanted.
    """
    if events.is_binary:
        events.require(events=least, each_outcome=each)
        return
    events.require(events=least)
    counts = np.bincount(events.outcome, minlength=events.classes)
    if (counts >= each).sum() < 2:
        common = int(np.argmax(counts))
        raise NotEnoughData(
            f"{counts[common]} of {len(events)} labelled events have the outcome {common}; at least {each} of a second "
            "one are needed"
        )
