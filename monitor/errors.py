"""Every error that this service raises on purpose.

::

    MonitorError
    ├── SettingsError            a setting or an argument is wrong; the user corrects it
    │   └── PortTaken            another program listens at the port
    ├── InputError               a file or a request is wrong; the user corrects it
    │   ├── OptionError          an option of a report, a refit or a simulation is wrong; carries the option
    │   ├── UnknownSeries        no such model, version, segment or window; names the existing ones
    │   │   └── UnknownModel     no such model; names the others, which not every principal may see
    │   ├── UnknownRecalibration  no such refit or map
    │   ├── UnknownAlert         no such alert
    │   ├── Conflict             the request does not fit the current state; says why
    │   └── NoLongerKept         the events of that time were removed; names what is kept
    ├── Unauthenticated          no credential, or one that is unknown, revoked, expired or forged
    ├── Forbidden                the principal lacks the role
    ├── ProviderUnavailable      the provider of tokens does not answer; retried, its last keys are used for a while
    ├── NotEnoughData            fewer events than a measure needs
    ├── CorruptMap               a recalibration map cannot be used: damaged, or of another format
    ├── EvaluationFailed         a report could not be computed; the next evaluation tries again
    ├── IncompatibleTables       two score tables cannot be added, or bytes are of another grid
    ├── SourceError
    │   ├── SourceUnavailable    the broker does not answer; retried with backoff
    │   ├── SourceMisconfigured  access refused, or different partition counts; retried until it is fixed
    │   ├── SchemaUnavailable    the schema of a message cannot be had now; its partition waits, and it is retried
    │   ├── OffsetPurged         the log no longer holds the stored offset; the policy decides
    │   └── InstanceReplaced     another process joined the group under this replica's name
    ├── StoreError
    │   ├── StoreUnavailable     the database does not answer; retried with backoff
    │   ├── NoStore              there is no store to read, back up or check
    │   ├── IncompatibleStore    the store is of another grid or schema version
    │   ├── DamagedStore         the saved state is inconsistent
    │   └── FencedOut            another process owns the partition now
    ├── TooManyDeadLetters       the share of bad events passed its ceiling; consumption stops
    └── ServiceUnavailable       the service does not answer a client or a command, or cannot

An invalid *event* raises none of these: it goes to the dead letters with a reason, is counted, and the
stream goes on.
"""

import os
import traceback
from itertools import takewhile
from pathlib import Path

from monitor.options import Option


class MonitorError(Exception):
    """The root of all errors that the service raises on purpose.

    ``problem`` is the kind of the problem that a service answered over HTTP, such as ``busy``, and empty otherwise.
    """

    problem = ""

    def _render_traceback_(self) -> list[str]:
        """Lines that a notebook shows: the caller's own frames and the message, as the caller is to correct it.

        IPython calls this; `%debug` and everything else has all frames.
        """
        package = str(Path(__file__).parent)
        frames = takewhile(
            lambda frame: not frame.filename.startswith(package), traceback.extract_tb(self.__traceback__)
        )
        own = [frame for frame in frames if f"{os.sep}IPython{os.sep}" not in frame.filename]
        return [*"".join(traceback.format_list(own)).splitlines(), f"{type(self).__name__}: {self}"]


class SettingsError(MonitorError):
    """A setting or an argument is wrong. The message names key and value and says what is allowed."""


class PortTaken(SettingsError):  # noqa: N818 - a state of the machine
    """Another program listens at the port of the API."""


class InputError(MonitorError):
    """A file or a request is wrong. The message names the place and the value and says what to do."""


class OptionError(InputError):
    """An option is wrong: ``field``, its name as the caller spells it, with which the message begins."""

    def __init__(self, field: Option, problem: str) -> None:
        super().__init__(f"{field}{problem}")
        self.field = str(field)


class Unauthenticated(MonitorError):  # noqa: N818 - the field's own word
    """No credential, or an invalid one. The message helps its owner and discloses nothing to others."""


class Forbidden(MonitorError):  # noqa: N818 - the field's own word
    """The principal may not do this. The message names the required role."""


class ProviderUnavailable(MonitorError):  # noqa: N818
    """The provider of tokens does not answer, or answers wrongly. Recoverable: the request is repeated."""


class UnknownSeries(InputError):  # noqa: N818 - the field's own words read better than a suffix
    """There is no such model, version, segment or window. The message names the existing ones."""


class UnknownModel(UnknownSeries):
    """There is no such model. The message names the existing ones."""


class UnknownRecalibration(InputError):  # noqa: N818
    """There is no such refit or map, or no such part of one."""


class UnknownAlert(InputError):  # noqa: N818
    """There is no such alert."""


class Conflict(InputError):  # noqa: N818
    """The request does not fit the current state. The message says why."""


class NoLongerKept(InputError):  # noqa: N818
    """The requested report needs events that were removed. The message names what is kept."""


class EvaluationFailed(MonitorError):  # noqa: N818
    """A report could not be computed, for a reason that its reader cannot change. Other reports are not affected."""


class NotEnoughData(MonitorError):  # noqa: N818
    """There are fewer events than the measure needs."""


class CorruptMap(MonitorError):  # noqa: N818
    """A recalibration map cannot be used: it is damaged, of an unknown format, or gives what is no probability."""


class IncompatibleTables(MonitorError):  # noqa: N818
    """Two tables cannot be added: their grids or their versions differ."""


class SourceError(MonitorError):
    """The log of events cannot be read or written."""


class SourceUnavailable(SourceError):  # noqa: N818
    """The broker does not answer. Recoverable: retried with backoff."""


class OffsetPurged(SourceError):  # noqa: N818
    """The log no longer holds the offset at which the stored state ends."""


class SourceMisconfigured(SourceError):  # noqa: N818
    """Access is refused, or topics have different numbers of partitions. Retried until it is fixed."""


class SchemaUnavailable(SourceError):  # noqa: N818
    """The schema that a message was written with cannot be had now. Its partition waits; retried with backoff."""


class InstanceReplaced(SourceError):  # noqa: N818
    """Another process joined the consumer group under this replica's name. Joining again would remove that one."""


class StoreError(MonitorError):
    """The state cannot be read or written."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The database does not answer. Recoverable: retried with backoff."""


class NoStore(StoreError):  # noqa: N818
    """There is no store to read. Commands that only read do not create one."""


class IncompatibleStore(StoreError):  # noqa: N818
    """The store was written with another grid or schema version."""


class DamagedStore(StoreError):  # noqa: N818
    """The saved state is inconsistent. Restore a backup, or remove the store and read the log again."""


class FencedOut(StoreError):  # noqa: N818
    """Another process owns the partition now; writes of this one are refused."""


class TooManyDeadLetters(MonitorError):  # noqa: N818
    """The share of bad events passed its ceiling, so consumption stopped before a bad deploy drained the topic."""


class ServiceUnavailable(MonitorError):  # noqa: N818
    """The service does not answer a client or a command over HTTP, or cannot."""
