"""Alarms by sequential evidence: bets, the evidence they add up to, a budget of false alarms, change points."""

from monitor.sequential.budget import share_budget
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change_point import ChangePoint, find_change
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import Alarm, EverValid, Evidence
from monitor.sequential.naming import name_series
from monitor.sequential.recovery import Recovery
from monitor.sequential.steps import Steps
from monitor.sequential.watch import Event, Watch

__all__ = ["Alarm", "Bets", "CalibrationBets", "ChangePoint", "Detector", "Event", "EverValid", "Evidence", "Recovery"]
__all__ += ["Steps", "Watch", "find_change", "name_series", "share_budget"]
