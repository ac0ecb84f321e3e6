"""Hide secrets in log lines and error messages."""

import json
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_HIDDEN: Final = "***"
_MIN_LENGTH: Final = 4


class Redactor:
    """Replaces secrets by ``***`` in each form in which they may be written: plain, in a URL, in quotes, as JSON.

    Secrets shorter than four characters are kept: their letters occur in many words, and hiding them would garble the
    text and so disclose the secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= _MIN_LENGTH for form in _forms(secret)}
        # The longest first, because one may be part of another.
        self._forms = sorted(forms, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return the text without the secrets."""
        for form in self._forms:
            text = text.replace(form, _HIDDEN)
        return text


def _forms(secret: str) -> Iterator[str]:
    for in_url in (secret, quote(secret, safe=""), quote_plus(secret)):
        for in_quotes in (in_url, repr(in_url)[1:-1]):
            yield in_quotes
            yield json.dumps(in_quotes)[1:-1]
