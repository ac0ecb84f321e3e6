"""What to say of a key that does not exist."""

import difflib

from monitor.app.settings import fields


def unknown(path: fields.Path) -> str:
    """One line that names an unknown setting and the known one that is nearest."""
    # The first part that leads nowhere is the wrong one; what stands below it says nothing.
    while len(path) > 1 and fields.section_at(path[:-1]) is None:
        path = path[:-1]
    section, key = fields.section_at(path[:-1]), str(path[-1])
    siblings = list(section.model_fields) if section else []
    line = f"unknown setting {fields.dotted(path)}"
    near = difflib.get_close_matches(key, siblings, n=1)
    if near:
        return f"{line}; did you mean {fields.dotted((*path[:-1], near[0]))}?"
    elsewhere = {leaf.path[-1]: leaf.path for leaf in fields.leaves()}
    near = difflib.get_close_matches(key, list(elsewhere), n=1, cutoff=0.8)
    if near:
        return f"{line}; did you mean {fields.dotted(elsewhere[near[0]])}?"
    where = fields.dotted(path[:-1])
    return f"{line}; {f'{where} has' if where else 'there are'} {', '.join(siblings)}"
