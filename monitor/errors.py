"""Every error that this service raises on purpose.

::

    MonitorError
    ├── SettingsError            a setting or an argument is wrong; the user mends it
    ├── InputError               a file or a request is wrong; the user mends it
    │   ├── UnknownSeries        no model, version, segment or window is called that; names those that are
    │   │   └── UnknownModel     no model is; names the others, which not everybody may hear of
    │   ├── UnknownRecalibration  no refit or map is called that
    │   ├── Conflict             what is asked for does not fit what is there; says what stands in the way
    │   └── NoLongerKept         the events of that time are gone; names what is kept
    ├── Unauthenticated          nobody known asks: no credential, or one that is unknown, revoked, expired or forged
    ├── Forbidden                who asks is known, and may not
    ├── ProviderUnavailable      the provider of tokens does not answer; retried, and its last keys go on for a while
    ├── NotEnoughData            fewer events than a measure needs
    ├── CorruptMap               a recalibration map cannot be read; its bytes are damaged or of another format
    ├── EvaluationFailed         a report could not be made; the next evaluation tries again
    ├── IncompatibleTables       two score tables do not add, or bytes are of another grid
    ├── SourceError
    │   ├── SourceUnavailable    the broker does not answer; retried with backoff
    │   ├── SourceMisconfigured  access refused, partition counts that differ; retried until somebody fixes it
    │   ├── OffsetPurged         the log no longer holds the stored offset; the policy decides
    │   └── InstanceReplaced     another process joined the group under this replica's name
    ├── StoreError
    │   ├── StoreUnavailable     the database does not answer; retried with backoff
    │   ├── NoStore              there is no store to look at, to back up or to check
    │   ├── IncompatibleStore    the store is of another grid or schema version
    │   ├── DamagedStore         what was saved does not fit together
    │   └── FencedOut            another process owns the partition now
    ├── TooManyDeadLetters       the share of bad events passed its ceiling; consumption stops
    └── ServiceUnavailable       the service that a client or a command asks does not answer, or cannot

An invalid *event* raises none of these: it goes to the dead letters with a reason, is counted, and the
stream goes on.
"""


class MonitorError(Exception):
    """The root: catch this to catch whatever the service raises on purpose."""


class SettingsError(MonitorError):
    """A setting or an argument is wrong. The message names key and value and says what is allowed."""


class InputError(MonitorError):
    """A file or a request is wrong. The message names the place and the value and says what to do."""


class Unauthenticated(MonitorError):  # noqa: N818 - the field's own word
    """No credential, or one that is nobody's. The message helps its owner and tells a stranger nothing."""


class Forbidden(MonitorError):  # noqa: N818 - the field's own word
    """Who asks may not do this. The message names the role that it takes."""


class ProviderUnavailable(MonitorError):  # noqa: N818
    """The provider of tokens does not answer, or not as it should. Recoverable: it is asked again."""


class UnknownSeries(InputError):  # noqa: N818 - the field's own words read better than a suffix
    """No model, version, segment or window is called that. The message names those that there are."""


class UnknownModel(UnknownSeries):
    """No model is called that. The message names those that there are."""


class UnknownRecalibration(InputError):  # noqa: N818
    """No refit, no map or no part of one is called that."""


class Conflict(InputError):  # noqa: N818
    """What is asked for does not fit the state that things are in. The message says what stands in the way."""


class NoLongerKept(InputError):  # noqa: N818
    """The report asked for needs events that are older than what is kept. The message names what is."""


class EvaluationFailed(MonitorError):  # noqa: N818
    """A report could not be made, for a reason that its reader cannot mend. Other reports are not touched."""


class NotEnoughData(MonitorError):  # noqa: N818
    """There are fewer events than the measure needs."""


class CorruptMap(MonitorError):  # noqa: N818
    """A recalibration map cannot be read: its bytes are damaged, or of a format that this version does not know."""


class IncompatibleTables(MonitorError):  # noqa: N818
    """Two tables do not add: their grids, or their versions, differ."""


class SourceError(MonitorError):
    """The log of events cannot be read or written."""


class SourceUnavailable(SourceError):  # noqa: N818
    """The broker does not answer. Recoverable: retried with backoff."""


class OffsetPurged(SourceError):  # noqa: N818
    """The log no longer holds the offset at which the stored state ends."""


class SourceMisconfigured(SourceError):  # noqa: N818
    """Access is refused, or topics have different numbers of partitions. Retried: somebody may fix it meanwhile."""


class InstanceReplaced(SourceError):  # noqa: N818
    """Another process joined the consumer group under this replica's name. Joining again would put that one out."""


class StoreError(MonitorError):
    """The state cannot be read or written."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The database does not answer. Recoverable: retried with backoff."""


class NoStore(StoreError):  # noqa: N818
    """There is no store where one is to be looked at. Commands that look make none."""


class IncompatibleStore(StoreError):  # noqa: N818
    """The store was written with another grid or schema version."""


class DamagedStore(StoreError):  # noqa: N818
    """What was saved does not fit together. Restore a backup, or remove the store and read the log again."""


class FencedOut(StoreError):  # noqa: N818
    """Another process owns the partition now; what this one would write is refused."""


class TooManyDeadLetters(MonitorError):  # noqa: N818
    """The share of bad events passed its ceiling, so consumption stopped before a bad deploy drained the topic."""


class ServiceUnavailable(MonitorError):  # noqa: N818
    """The service that a client or a command asks over HTTP does not answer, or fails to."""
