"""How large samples are: of a span of time, and of a bucket's candidates for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from monitor.events.model import ModelPolicy
from monitor.stream.journal import bucket_width_ms

_OVERSAMPLING: Final = 2
"""A cell keeps at most so many times as many candidates as a span keeps events: not all of them will be answered."""

_BUSY: Final = 4
"""A bucket that is narrower than its span keeps so many times its even share of the span's events ..."""
_LEAST_SHARE: Final = 4
"""... and no less than a quarter of all of them: of a version that is young, few buckets have to fill the span."""


def _nothing(model: str) -> int:  # noqa: ARG001 - the size of a model's sample, whatever its name
    return 0


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """How large samples are. The default keeps none.

    Attributes
    ----------
    size
        Model -> about how many labelled events are kept of each version, in each partition, over ``kept_ms``; 0 for
        none. Every span of that time has the same share of it.
    span_ms
        Width of a span, at least 1: of its events, a part is kept whatever other spans have. A sixteenth of the longest
        window does well. Where the buckets of a model's journal are wider, so are its spans.
    kept_ms
        How long a span is kept beyond horizon and lateness: the longest window, and how far one looks back.
    """

    size: Callable[[str], int] = _nothing
    span_ms: int = 3_600_000
    kept_ms: int = 86_400_000

    def span_of(self, policy: ModelPolicy) -> int:
        """Width of a model's spans: a whole multiple of ``span_ms``, no narrower than its buckets."""
        return -(-bucket_width_ms(policy.retention_ms) // self.span_ms) * self.span_ms

    def capacity(self, model: str, policy: ModelPolicy) -> int:
        """How many labelled events a span of the model keeps; 0 for none."""
        size = self.size(model)
        return min(-(-size * self.span_of(policy) // self.kept_ms), size)

    def candidates(self, model: str, policy: ModelPolicy) -> int:
        """How many predictions a bucket of the model keeps as candidates for its span."""
        capacity = self.capacity(model, policy)
        even = -(-capacity * bucket_width_ms(policy.retention_ms) // self.span_of(policy))
        return min(_OVERSAMPLING * capacity, max(_BUSY * even, -(-capacity // _LEAST_SHARE)))
