"""The documentation at /help, where the installation has it; and the paragraph that each problem leads to."""

from pathlib import Path

import pytest

from monitor.http.routes import help as help_route
from tests.docs.test_docs import DOCS, anchors
from tests.http.service import Service


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "help"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><script>let a = 1</script>", encoding="utf-8")
    (folder / "assets" / "main.js").write_text("1", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(help_route, "FOLDER", folder)
    return folder


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("path", ["/help", "/help/"])
def test_the_index_is_found(path: str) -> None:
    answer = Service().client().get(path, follow_redirects=True)
    assert answer.status_code == 200
    assert answer.url.path == "/help/index.html"
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.usefixtures("site")
def test_a_page_runs_its_own_scripts_and_no_others() -> None:
    client = Service().client()
    policy = client.get("/help/index.html").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
    assert "'unsafe-inline'" not in policy.replace("style-src 'self' 'unsafe-inline'", "")
    asset = client.get("/help/assets/main.js")
    assert (asset.text, asset.headers["content-type"].partition(";")[0]) == ("1", "text/javascript")
    assert asset.headers["cache-control"] == "no-cache"


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", ["../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "assets", "none.html", ""])
def test_nothing_else_is_served(name: str) -> None:
    answer = Service().client().get(f"/help/x/../{name}" if not name else f"/help/{name}")
    assert answer.status_code in {303, 404}
    assert "secret" not in answer.text.replace("secret.txt", "")


def test_where_there_is_none_one_line_says_how_to_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help_route, "FOLDER", tmp_path / "none")
    answer = Service().client().get("/help/index.html")
    assert answer.status_code == 404
    detail = answer.json()["detail"]
    assert detail.startswith(f"this installation has no documentation in {tmp_path / 'none'}: the image has it")
    assert "make docs" in detail
    assert "\n" not in detail


def test_every_problem_leads_to_its_paragraph() -> None:
    client = Service().client()
    for path, root in (("/nothing", "./"), ("/v1/models/none/report", "../../../")):
        answer = client.get(path)
        kind = answer.json()["type"].rpartition(":")[2]
        assert answer.headers["link"] == f'<{root}help/answers.html#problem-{kind}>; rel="help"'
        assert f"problem-{kind}" in anchors(DOCS / "answers.md")
    page = client.get("/nothing/at/all", headers={"accept": "text/html"})
    assert '<a href="../../help/answers.html#problem-no-such-route">What this means</a>' in page.text
