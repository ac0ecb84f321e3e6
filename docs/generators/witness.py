"""The picture of where a model is too low and too high, alone; a report has it beside others."""

from matplotlib.figure import Figure

from monitor.reports.diagrams.reliability import on_cells, smce_result
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.style import new_figure
from monitor.reports.figures.witness import HEIGHT, draw_witness
from monitor.scores import ScoreTable


def witness_figure(table: ScoreTable, *, smce: MeasureResult | None = None) -> Figure:
    """Draw the witness of smCE over the predictions; smCE with its level is computed if left out."""
    cells = on_cells(table)
    figure = new_figure(HEIGHT)
    draw_witness(figure, cells, smce or smce_result(cells))
    return figure
