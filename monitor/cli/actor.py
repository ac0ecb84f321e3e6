"""Under which name the audit trail keeps what a command did."""

import os
import pwd


def command_actor() -> str:
    """``cli:`` and the user of the operating system: as the system knows them, not as the environment says.

    In a container the user often has a number alone, as in ``cli:10001``.
    """
    number = os.geteuid()
    try:
        return f"cli:{pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"cli:{number}"
