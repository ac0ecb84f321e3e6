"""All pictures that belong to a report."""

from collections.abc import Sequence

from monitor.reports.figures.cells import drawn, judged, smce_row
from monitor.reports.figures.picture import MeasureRow, Picture
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.tce_diagram import tce_diagram
from monitor.reports.figures.witness import witness_figure
from monitor.scores import ScoreTable


def report_figures(
    table: ScoreTable, rows: Sequence[MeasureRow] = (), *, insufficient: str | None = None
) -> Sequence[Picture]:
    """The pictures that belong to a report on a table, each with a heading and an explanation.

    Parameters
    ----------
    table
        m rows. None is drawn of an empty table, and no test-based diagram of a weighted one, whose counts are not
        whole.
    rows
        The measures of a report on the table, so that no figure says other than it does. What chance makes of smCE and
        of TCE is drawn here where they are not among them.
    insufficient
        Why the report judges nothing, if it does not: titles say so.
    """
    if not table.counts.any():
        return ()
    cells = drawn(table)
    smce = judged(rows, "smce") or smce_row(cells)
    pictures = [
        Picture(
            name="reliability",
            title="What was predicted, and what came true",
            explanation=(
                "Of predictions of 70%, 70% should come true. The diagram compares the two for all predictions; the"
                " grey band is as far as chance alone goes."
            ),
            figure=reliability_diagram(cells, smce=smce, insufficient=insufficient),
        ),
        Picture(
            name="where",
            title="Where the model is too high or too low",
            explanation=(
                "The smooth calibration error comes with the function that proves it: it shows which predictions say"
                " too little and which say too much."
            ),
            figure=witness_figure(cells, smce=smce, insufficient=insufficient),
        ),
    ]
    if not table.weighted:
        pictures.append(
            Picture(
                name="test",
                title="Which predictions the outcomes refute",
                explanation=(
                    "Each prediction is tested against the outcomes of predictions like it. The share that is refuted"
                    " is the test-based calibration error (TCE); with much data it is high for good models, too, so"
                    " the title names what a perfectly calibrated one would show."
                ),
                figure=tce_diagram(table, judged(rows, "tce")),
            )
        )
    return tuple(pictures)
