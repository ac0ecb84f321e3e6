"""Find the series of a request, or say which series there are."""

from collections.abc import Collection, Sequence

from monitor.errors import UnknownModel, UnknownSeries
from monitor.events.model import ALL, OTHER, SeriesKey
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window


def current_version(
    panes: ClosedPanes,
    windows: Sequence[Window],
    series: Sequence[SeriesKey],
    model: str,
    until_ms: int | None = None,
) -> str:
    """The version with the newest predictions.

    Times are compared by panes, finest first. Of several versions in the newest pane, as during a roll-out, it is the
    one with the most predictions in the shortest window; of equals, the last by name.

    Parameters
    ----------
    series
        Holds the model's series, at least one.
    until_ms
        Later predictions are ignored; the watermark if left out.
    """
    # Versions beyond the cap are counted together as OTHER, which is never current.
    versions = sorted({key.version for key in series if key.model == model and key.version != OTHER}) or [OTHER]
    if len(versions) == 1:
        return versions[0]
    watermark_ms = panes.watermark_ms(model)
    end_ms = watermark_ms if until_ms is None else min(until_ms, watermark_ms)
    for window in sorted(windows, key=lambda window: (window.slide_ms, window.length_ms)):
        newest = [
            (counts[-1].start_ms, sum(pane.predictions for pane in counts), version)
            for version in versions
            if (
                counts := panes.counts(
                    SeriesKey(model, version, ALL), window.slide_ms, end_ms - window.length_ms, end_ms + 1
                )
            )
        ]
        if newest:
            return max(newest)[2]
    return versions[-1]


def find_series(
    panes: ClosedPanes,
    windows: Sequence[Window],
    *,
    model: str,
    version: str | None,
    segment: str,
    until_ms: int | None = None,
) -> SeriesKey:
    """The series of these names; without a version, that of the current one.

    Raises
    ------
    UnknownSeries
        There is no such series. The message names those that there are.
    """
    of_model = _of_model(panes.series(), model)
    if version is None:
        version = current_version(panes, windows, of_model, model, until_ms)
    return check_series(of_model, model, version, segment)


def check_series(series: Collection[SeriesKey], model: str, version: str, segment: str) -> SeriesKey:
    """The series of these names, if it is among those.

    Raises
    ------
    UnknownSeries
        It is not. The message names those that there are.
    """
    of_model = _of_model(series, model)
    segments = {key.segment for key in of_model if key.version == version}
    if not segments:
        versions = {key.version for key in of_model}
        raise UnknownSeries(f"no version {version!r} of model {model!r}; versions are {listed(versions)}")
    if segment not in segments:
        raise UnknownSeries(
            f"no segment {segment!r} of model {model!r} version {version!r}; segments are {listed(segments)}"
        )
    return SeriesKey(model, version, segment)


def no_window(name: str, windows: Collection[str]) -> UnknownSeries:
    """The error of a window that there is not."""
    return UnknownSeries(f"no window {name!r}; windows are {listed(windows)}")


def _of_model(series: Collection[SeriesKey], model: str) -> list[SeriesKey]:
    check_model({key.model for key in series}, model)
    return [key for key in series if key.model == model]


def check_model(models: Collection[str], model: str) -> None:
    """Raise UnknownModel unless the model is among those. The message names them."""
    if not models:
        raise UnknownModel(f"no model {model!r}, and no other either yet: /readyz says whether events are read")
    if model not in models:
        raise UnknownModel(f"no model {model!r}; models are {listed(models)}")


def listed(names: Collection[str]) -> str:
    """Names for a message: the first twenty, and how many more."""
    shown = sorted(names)[:20]
    rest = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return (", ".join(repr(name) for name in shown) or "none yet") + rest
