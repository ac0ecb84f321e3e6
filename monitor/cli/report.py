"""`monitor report`: report on the calibration of a file, without a service."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from monitor.cli.options import (
    ConfigOption,
    LogitsOption,
    PositiveOption,
    SkipBadRowsOption,
    argument,
    check_target,
    flag,
    option,
    print_help_line,
    write_target,
)
from monitor.errors import InputError
from monitor.options import TOLERANCE
from monitor.reports.evaluation.assess import DRAWS, WINDOW_DRAWS
from monitor.reports.evaluation.files import looks_like_event_log
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.fail_if import FailCondition
from monitor.reports.findings import MEMORY_GB, Findings, GroupFindings, ReportOptions, measure_files, measure_groups
from monitor.reports.progress import stages_progress
from monitor.reports.report_view import groups_view, report_view, verdicts_of
from monitor.reports.view import print_view, report_console
from monitor.sources.data_sets import open_tables
from monitor.sources.formats import TableFile, table_bytes
from monitor.sources.stored_files import is_one_path
from monitor.sources.tables import Columns

app = typer.Typer(add_completion=False)

_FAILED_CONDITION: Final = 3
"""Exit status if a condition holds: neither a failure nor bad use."""

_NONE: list[str] = []


@app.command(
    epilog="Examples: `monitor report scores.parquet --prediction score --outcome label --segment region --html "
    "report.html`; `monitor report old.csv --compare new.csv`; `monitor report events.jsonl --json`."
)
def report(
    files: Annotated[
        list[str],
        argument(
            "FILE...",
            "A table of predictions and outcomes (.csv, .tsv, .parquet, .orc, .avro, .jsonl): a file, a folder, "
            "a pattern such as 'scores/*.parquet', a URL (s3://, gs://, abfs://), or several of these; a Delta or "
            "Iceberg table; with --query, the URL of a database. Or JSON lines of events as they went "
            "through the topic.",
        ),
    ],
    *,
    prediction: Annotated[
        list[str],
        option("COLUMN", "Column with P(y = 1), guessed if left out; for classes, a column each, or one of lists."),
    ] = _NONE,
    outcome: Annotated[
        str | None, option("COLUMN", "Column with the outcome, 0 or 1, or the class; guessed if left out.")
    ] = None,
    time: Annotated[str | None, option("COLUMN", "Column with the time; guessed if left out.")] = None,
    weight: Annotated[str | None, option("COLUMN", "Column that says how much each row counts.")] = None,
    positive: PositiveOption = None,
    logits: LogitsOption = False,
    skip_bad_rows: SkipBadRowsOption = False,
    where: Annotated[
        str | None,
        option("CONDITION", "Read only rows that meet this, as SQL has it: \"region = 'eu' AND score < 0.9\"."),
    ] = None,
    query: Annotated[
        str | None, option("SELECT", "Report on the rows of this query to the database whose URL FILE is.")
    ] = None,
    memory: Annotated[
        float,
        option(
            "GB",
            "Measure raw rows, exactly, as long as this much memory has room for them; beyond, count them on the "
            "grid, with error bounds.",
            min=0.0,
        ),
    ] = MEMORY_GB,
    segment: Annotated[
        list[str],
        option("COLUMN", "Report on each value or range of this column; 'region*device' crosses two. Repeatable."),
    ] = _NONE,
    by: Annotated[
        list[str],
        option(
            "COLUMN",
            "Make a report of each value of this column, or of each hour, day, week or month of the times, instead of "
            "one of all rows. Repeatable: `--by model --by day`.",
        ),
    ] = _NONE,
    find_segments: Annotated[
        bool, flag("--find-segments", "Find groups of one or two columns (--segment, or all) with errors.")
    ] = False,
    feature: Annotated[
        list[str],
        option("COLUMN", "Numbers or categories by which events are alike, to find the worst error. Repeatable."),
    ] = _NONE,
    show_all: Annotated[
        bool, flag("--all", "Show all measures, and not only the five main ones. JSON has all.")
    ] = False,
    measure: Annotated[list[str], option("NAME", "Show this measure instead of the usual ones. Repeatable.")] = _NONE,
    draws: Annotated[
        int | None,
        option(
            None,
            "Resamples for intervals and levels; 0 leaves both out, and is fast.",
            min=0,
            show_default=f"{DRAWS}; {WINDOW_DRAWS} of many classes and for --feature",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        option(
            "LOGITS",
            "Error of the logits up to which nothing is a fault, however certain: 0.05 if left out, which changes "
            "odds by 5%; 0.2 changes them by 22%.",
            min=0.0,
        ),
    ] = None,
    fail_if: Annotated[
        list[str],
        option(
            "CONDITION",
            "End with exit status 3 if this holds: verdict (it names a fault), 'severity>=moderate', "
            "'smce>0.02', 'tce.lower>10', 'auc<0.7'. Repeatable; one is enough.",
        ),
    ] = _NONE,
    compare: Annotated[
        str | None, option("OTHER", "Compare with this file (or folder, ...): another model, or period.")
    ] = None,
    compare_prediction: Annotated[
        str | None, option("COLUMN", "Column with P(y = 1) in OTHER, if it is called otherwise there.")
    ] = None,
    id: Annotated[  # noqa: A002 - the option's name
        str | None, option("COLUMN", "Column that tells which rows of FILE and OTHER are the same.")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON, as REST does.")] = False,
    diagrams: Annotated[
        bool, flag("--diagrams", "Add to --json what diagrams show, as numbers to draw them from.")
    ] = False,
    html: Annotated[Path | None, option("FILE", "Write a page with figures, which needs nothing else.")] = None,
    png: Annotated[Path | None, option("FILE", "Write a picture of the report.")] = None,
    output: Annotated[
        Path | None, option("FILE", "Write the reports of --by as a table, one row each: .csv or .parquet.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Report on the calibration of a file, or of a table in many files.

    A table is measured exactly, if it fits into memory, and on a fine grid if not. A log of events is joined, windowed
    and matured with the horizon, the windows and the segments of the settings, as in the service. The exit status is 3
    if a condition of --fail-if holds.
    """
    file = _opened(files, where, query, skip_bad_rows=skip_bad_rows)
    other = None if compare is None else _opened([compare], where, None, skip_bad_rows=skip_bad_rows)
    columns = Columns(
        prediction, outcome, time, weight, id, segment, feature, positive, logits=logits, skip_bad_rows=skip_bad_rows
    )
    options = ReportOptions(
        file,
        columns,
        measures=measure,
        resampling=Resampling(draws, seed=0),
        tolerance=TOLERANCE if tolerance is None else tolerance,
        find_segments=find_segments,
        by=by,
        compare=other,
        compare_prediction=compare_prediction,
        all=show_all,
        memory=memory,
    )
    options.check()
    conditions = [FailCondition.parse(condition) for condition in fail_if]
    if conditions and compare is not None:
        raise InputError("--fail-if judges one report: leave --compare out, and report on the file that is to pass")
    if diagrams and not as_json:
        raise InputError("--diagrams adds numbers to --json: add --json; --html and --png draw them")
    paths = (("--html", html), ("--png", png), ("--output", output))
    targets = {option: path for option, path in paths if path is not None}
    for name, path in targets.items():
        check_target(name, path)
    if output is not None and output.suffix.lower() not in {".csv", ".parquet"}:
        raise InputError(f"--output: the name of {output} must end in .csv or .parquet, which is what is written")
    if by:
        for option in (option for option, value in (("--png", png), ("--fail-if", fail_if)) if value):
            raise InputError(
                f"{option} is of one report, and --by makes many: leave it out, or choose one with --where"
            )
        _report_groups(options, targets, as_json=as_json)
        return
    if output is not None:
        raise InputError("--output is for the reports of --by; write one report with --html, --png or --json")
    if isinstance(file, Path) and not options.is_of_table and looks_like_event_log(file):
        table_options: dict[str, Any] = {
            "--measure": measure,
            "--draws": draws,
            "--tolerance": tolerance,
            "--fail-if": fail_if,
            "--all": show_all or None,
            "--compare": compare,
            "--diagrams": diagrams or None,
            **targets,
        }
        for option in (option for option, value in table_options.items() if value not in (None, _NONE)):
            raise InputError(
                f"{file}: holds events of the service, and {option} is for tables of predictions and outcomes; "
                "of events, measures and windows are settings: see `monitor config --default`"
            )
        # With the settings and the parts of the service, which take a second to load.
        from monitor.cli.report_events import report_events  # noqa: PLC0415

        report_events(file, config, as_json=as_json)
        return
    findings = measure_files(options, pictures=html is not None)
    _write(findings, targets)
    document = findings.to_dict() | ({"diagrams": findings.diagrams()} if diagrams else {})
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        print_view(report_console(), report_view(findings))
        for path in targets.values():
            typer.echo(f"wrote {path}")
        print_help_line(verdicts_of(findings.reports))
    failures = [failure for condition in conditions if (failure := condition.failure(document))]
    for failure in failures:
        typer.echo(f"failed: {failure}", err=True)
    if failures:
        raise typer.Exit(_FAILED_CONDITION)


def _report_groups(options: ReportOptions, targets: Mapping[str, Path], *, as_json: bool) -> None:
    """Print and write the reports of --by."""
    findings = measure_groups(options)
    for name, path in targets.items():
        write_target(name, path, _groups_file(name, path, findings))
    if as_json:
        typer.echo(json.dumps(findings.to_dict(), indent=2))
        return
    print_view(report_console(), groups_view(findings))
    for path in targets.values():
        typer.echo(f"wrote {path}")
    print_help_line(verdicts_of(group.report for _, group in findings.result.groups if group.significant))


def _groups_file(option: str, path: Path, findings: GroupFindings) -> bytes:
    if option == "--html":
        from monitor.reports.page import groups_page  # noqa: PLC0415 - most reports are never drawn

        return groups_page(findings)
    return table_bytes(findings.result.to_arrow(), path)


def _opened(names: list[str], where: str | None, query: str | None, *, skip_bad_rows: bool) -> Path | TableFile:
    """Open a table; one file is a path, which may hold events."""
    if len(names) == 1 and where is None and query is None and is_one_path(names[0]):
        path = Path(names[0])
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; name a file that is there, or a folder of files")
        return path
    return open_tables(names, where=where, query=query, skip_bad_rows=skip_bad_rows)


def _write(findings: Findings, targets: Mapping[str, Path]) -> None:
    """Write the page and the picture, if they were requested."""
    if not targets:
        return
    with stages_progress() as progress:
        for number, (option, path) in enumerate(targets.items()):
            progress(f"drawing {path.name}", 0.5 * number)
            write_target(option, path, _drawn(option, findings))


def _drawn(option: str, findings: Findings) -> bytes:
    if option == "--html":
        from monitor.reports.page import report_page  # noqa: PLC0415 - most reports are never drawn

        return report_page(findings)
    from monitor.reports.pictures import report_picture  # noqa: PLC0415

    return report_picture(findings)
