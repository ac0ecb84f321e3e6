"""The pages of refits: what became of each, whether it is better, and what may be done with it."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from monitor.http.recalibration_schemas import RefitBody
from monitor.store.recalibrations import JobState
from tests.http.refits import VERSIONS
from tests.page.site import Site
from tests.snapshots import evidence, evidence_level, report, snapshot, with_evidence


def test_the_list_shows_how_far_each_refit_is(page: Page, site: Site) -> None:
    refits = site.refits
    failed = refits.request(refits.make_request("org/model"), actor="key:nightly")[0]
    refits.end(failed.id, JobState.FAILED, reason="12 labelled events, at least 100 are needed")
    queued = refits.request(refits.make_request("org/model"), actor="key:nightly")[0]
    page.goto(f"{site.url}/recalibrations")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="failed")).to_contain_text("12 labelled events, at least 100")
    expect(rows.filter(has_text="queued")).to_contain_text("0 %")
    expect(rows.filter(has_text="candidate")).to_contain_text("waits for a promotion")
    expect(rows.filter(has_text="queued").get_by_role("link").last).to_have_attribute(
        "href", f"{site.url}/recalibrations/{queued.id}"
    )


def test_a_refit_is_shown_with_its_comparison_and_its_pictures(page: Page, tmp_path: Path) -> None:
    comparison = RefitBody.example()["comparison"]
    evidence = {**comparison["evidence"]["against_none"], "e_value": 1e25, "log10_e": 25.9}
    errors = {"smce": 0.1, "ece": 0.1, "mce": 0.2}
    segment = {"segment": "region=eu", "n": 900, "positives": 200, "none": errors, "challenger": errors}
    few = {"fewer than 50 events": 3, "beyond the 100 largest": 1}
    comparison = {
        **comparison,
        "segments": [segment],
        "segments_left_out": few,
        "evidence": {**comparison["evidence"], "against_champion": evidence},
    }
    with Site(tmp_path) as site:
        asked = site.refits.request(site.refits.make_request("org/model"), actor="anonymous")[0]
        site.refits.end(asked.id, comparison=comparison)
        page.goto(f"{site.url}/recalibrations/{asked.id}")
        main = page.locator("main")
        for text in (
            "candidate",
            "The guard passed it",
            "14,000",
            "smCE",
            "1025.9",  # a power of ten: the exponent is superscript
            "Not compared: 3 segments, fewer than 50 events",
            "Not compared: 1 segment, beyond the 100 largest",
        ):
            expect(main).to_contain_text(text)
        figure = main.locator("section", has_text="Later events, before and after")
        expect(figure.locator("svg").first).to_be_visible()


def test_a_local_error_leads_the_refit_and_is_part_of_the_models_state(page: Page, tmp_path: Path) -> None:
    """No detector sees it, and nobody may read that there is nothing to do."""
    comparison = RefitBody.example()["comparison"]
    around = {"gamma": 0.1, "dimensions": 2, "n": 6000, "points": 500, "valid_share": 1.0}

    def local(value: float) -> dict[str, Any]:
        error = {"value": value, "null_mean": 0.04, "null_q95": 0.06, "p_value": 0.01, "excess": value - 0.04}
        return {"local": around | {"mlce": error, "mean_lce": error}}

    maps = comparison["maps"]
    comparison = comparison | {
        "maps": maps | {"none": maps["none"] | local(0.207), "challenger": maps["challenger"] | local(0.085)}
    }
    with Site(tmp_path) as site:
        quiet = {("org/model", "1"): evidence(calibration=evidence_level(0.4))}
        site.service.show(with_evidence(snapshot([report("org/model", "1", window="24h", bins=10)]), quiet))
        asked = site.refits.request(site.refits.make_request("org/model"), actor="anonymous")[0]
        site.refits.end(asked.id, comparison=comparison)
        page.goto(f"{site.url}/recalibrations/{asked.id}")
        expect(page.locator(".lead")).to_contain_text(
            "Worst local error 21 \N{RIGHTWARDS ARROW} 8.5 percentage points; calibration"
        )
        page.goto(f"{site.url}/models/org/model")
        lead = page.locator(".lead")
        expect(lead).to_contain_text("they are off by up to 21 percentage points among events that are alike")
        expect(lead).not_to_contain_text("nothing to do")
        lead.get_by_role("link", name="The refit, and where they are off").click()
        expect(page).to_have_url(f"{site.url}/recalibrations/{asked.id}")


def test_a_refit_that_nobody_knows_is_a_problem(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/recalibrations/rc_none")
    expect(page.get_by_role("alert")).to_contain_text("no refit is called 'rc_none'")


def test_a_candidate_that_may_not_be_promoted_is_offered_to_nobody(page: Page, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        other = site.refit()
        button = page.get_by_role("button", name="Let it serve")
        page.goto(f"{site.url}/recalibrations/{other}")
        expect(button).to_be_visible()
        site.refits.promote(site.candidate, actor="ada", note="")
        page.reload()
        expect(page.locator("main")).to_contain_text("It may not serve")
        expect(button).to_have_count(0)
        page.goto(f"{site.url}/recalibrations")
        expect(page.locator("tbody tr").filter(has_text="candidate")).to_contain_text("It may not serve")


def test_no_page_leads_to_another_model(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose name an older version allowed, and addresses that a browser normalises."""
    monkeypatch.setitem(VERSIONS, "zz/../churn", ["1"])
    with Site(tmp_path) as site:
        old, sent = site.refit("zz/../churn"), list[str]()
        page.on("request", lambda request: sent.append(request.url.removeprefix(site.url)))
        page.goto(f"{site.url}/recalibrations")
        row = page.locator("tbody tr").filter(has_text="zz/../churn")
        expect(row.get_by_role("link")).to_have_count(1)
        refused = "(model) => import('page/api.js').then((api) => api.modelPath(model)).catch(String)"
        assert "no path leads to a model" in page.evaluate(refused, "zz/../churn")
        row.get_by_role("link").click()
        expect(page.get_by_role("alert")).to_contain_text(f"no refit is called '{old}'")
        for path in ("models/.", "models/churn/..", "models/zz%2F..%2Fchurn", "reports/..%2F..", "reports/\\..\\"):
            page.goto(f"{site.url}/{path}")
            expect(page.get_by_role("heading")).to_have_text("404 Not Found")
        assert [path for path in sent if path.startswith("/v1/models")] == []
