import re

from monitor.reports.evaluation.report import Verdict
from tests.http.service import BROWSER, Service


def test_the_page_needs_nothing_from_elsewhere_and_may_load_nothing() -> None:
    answer = Service().client().get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe-inline" not in answer.headers["content-security-policy"]


def test_its_links_lead_somewhere() -> None:
    client = Service().client()
    links = re.findall(r'<a href="([^"]+)"', client.get("/").text)
    assert {"metrics", "docs", "recalibrations"} <= set(links)
    for link in links:
        answer = client.get(f"/{link}", headers=BROWSER)
        assert answer.status_code == 200
        assert "json" not in answer.headers["content-type"]


def test_it_writes_no_text_as_markup() -> None:
    """Names of models come from whoever writes events."""
    assert "innerHTML" not in Service().client().get("/").text


def test_its_verdicts_are_in_the_one_set_of_words() -> None:
    page = Service().client().get("/").text
    said = dict(re.findall(r"^  ([a-z_]+): \"([a-z ]+)\",$", page, re.MULTILINE))
    assert said == {verdict.value: verdict.words for verdict in Verdict}


def test_pages_are_put_together_from_what_they_share() -> None:
    client = Service().client()
    for path in ("/", "/recalibrations", "/recalibrations/rc_1"):
        page = client.get(path).text
        assert "@include" not in page
        assert len(re.findall(r"<form id=\"login\"", page)) == 1
        # A script that failed must not leave a form that sends the key as part of an address.
        assert re.search(r"<form id=\"login\"[^>]* method=\"post\"[^>]* hidden>", page)
