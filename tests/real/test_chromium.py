"""A browser is taken when it answers, not when its file is there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real import chromium

Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts programs on a path of their own; each writes down how it was called."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, body: str) -> None:
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n{body}\n', encoding="utf-8")
        path.chmod(0o755)

    return put


def test_one_whose_libraries_are_still_being_unpacked_is_waited_for(fake: Fake, tmp_path: Path) -> None:
    fake("chromium", f"[ -e {tmp_path}/libraries ]")
    fake("apt-get", f": > {tmp_path}/libraries")
    assert chromium._fetched() == tmp_path / "chromium"
    asked, waited, answered = (tmp_path / "calls").read_text().splitlines()
    assert asked == answered == "chromium --version"
    assert waited == "apt-get -oDPkg::Lock::Timeout=600 install --yes --no-install-recommends chromium"


def test_the_next_one_that_answers_is_taken(fake: Fake, tmp_path: Path) -> None:
    fake("chromium", "exit 1")
    fake("google-chrome", "exit 0")
    assert chromium._fetched() == tmp_path / "google-chrome"


def test_lists_of_its_own_are_fetched_where_the_package_is_unknown(fake: Fake, tmp_path: Path) -> None:
    known = f'case "$*" in *lists*update) : > {tmp_path}/known;; *install*) [ -e {tmp_path}/known ] || exit 100'
    fake("apt-get", f"{known}; printf '#!/bin/sh\\n' > {tmp_path}/chromium; /bin/chmod 755 {tmp_path}/chromium;; esac")
    assert chromium._fetched() == tmp_path / "chromium"
    _, updated, installed = (tmp_path / "calls").read_text().splitlines()
    (lists,) = (option for option in updated.split() if "Dir::State::lists" in option)
    assert lists in installed.split()
    assert "-oDPkg::Lock::Timeout=600" in installed.split()


def test_what_was_tried_is_said(fake: Fake) -> None:
    fake("apt-get", "echo 'E: no such package' >&2; exit 100")
    fake("chromium", "echo 'no such library' >&2; exit 127")
    with pytest.raises(chromium.ChromiumMissingError) as error:
        chromium._fetched()
    assert str(error.value).count("E: no such package") == 2
    assert str(error.value).count("/chromium --version: no such library") == 3
