"""The pages about refits, in a real browser that asks a real server."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.http.recalibration_schemas import RefitBody
from monitor.http.server import ApiServer
from monitor.store.recalibrations import JobState
from tests.http.refits import Refits
from tests.http.service import Service
from tests.patience import PATIENCE_SECONDS
from tests.real.chromium import chromium

pytestmark = pytest.mark.timeout(1800)  # the first time, the browser may have to be fetched


@pytest.fixture
def refits(tmp_path: Path) -> Iterator[Refits]:
    made = Refits(tmp_path)
    yield made
    made.close()


def ask(refits: Refits, model: str = "churn") -> str:
    return refits.request(refits.make_request(model), actor="anonymous")[0].id


def browse(url: str, folder: Path) -> str:
    """The document as the browser has it after the page has filled itself; it must not complain."""
    done = subprocess.run(
        [
            str(chromium()),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tempfile.mkdtemp(dir=folder)}",
            "--virtual-time-budget=8000",
            "--dump-dom",
            url,
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def words(document: str) -> str:
    return re.sub(
        r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)>.*?</\1>", "", document, flags=re.DOTALL))
    )


@pytest.mark.parametrize("path", ["/recalibrations", "/recalibrations/rc_1"])
def test_the_pages_need_nothing_from_elsewhere_and_write_no_text_as_markup(path: str) -> None:
    answer = Service().client().get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    assert "innerHTML" not in answer.text
    assert "ROOT/" not in answer.text


@pytest.mark.parametrize(("path", "up"), [("/recalibrations", "./"), ("/recalibrations/rc_1", "../")])
def test_their_links_lead_somewhere(path: str, up: str) -> None:
    client = Service().client()
    links = re.findall(r'<a href="([^"]+)"', client.get(path).text)
    assert len(links) == 5
    for link in links:
        assert link.startswith(up)
        assert client.get(f"/{link.removeprefix(up)}").status_code == 200


def test_the_list_says_how_far_each_refit_is(refits: Refits, tmp_path: Path) -> None:
    with ApiServer(Service(refits=refits).app(), port=0) as server:
        assert "No recalibrations yet" in words(browse(f"{server.url}/recalibrations", tmp_path))
        refits.end(ask(refits), JobState.FAILED, reason="12 labelled events, at least 100 are needed")
        refits.end(ask(refits))
        ask(refits, "org/model")
        document = browse(f"{server.url}/recalibrations", tmp_path)
    shown = words(document)
    for said in ("12 labelled events, at least 100", "waits to be promoted", "org/model", "queued", "0 %"):
        assert said in shown
    assert len(re.findall(r'href="http://[^"]*/recalibrations/rc_[0-9a-f]+"', document)) == 3


def test_a_refit_is_shown_with_its_comparison_and_its_pictures(refits: Refits, tmp_path: Path) -> None:
    told = RefitBody.example()["comparison"]
    evidence = {**told["evidence"]["against_none"], "e_value": 1e25, "log10_e": 25.9}
    few = {"fewer than 50 events": 3, "beyond the 100 largest": 1}
    told = {**told, "segments_left_out": few, "evidence": {**told["evidence"], "against_champion": evidence}}
    job = refits.end(ask(refits), comparison=told).id
    with ApiServer(Service(refits=refits).app(), port=0) as server:
        document = browse(f"{server.url}/recalibrations/{job}", tmp_path)
        shown = words(document)
        for said in (
            "Recalibration of churn 8",
            "candidate",
            "The guard passed it",
            f"monitor promote {job}",
            "48,200",
            "smCE",
            # As the guard says it.
            "10^26",
            "Not compared: 3 segments, fewer than 50 events",
            "Not compared: 1 segment, beyond the 100 largest",
        ):
            assert said in shown
        assert f'src="{server.url}/v1/recalibrations/{job}/figures/reliability"' in document
        missing = words(browse(f"{server.url}/recalibrations/rc_none", tmp_path))
    assert "no refit is called 'rc_none'" in missing
    assert "does not answer" not in missing
