"""Alarms by sequential evidence: bets, the evidence they add up to, a budget of false alarms, change points."""

from monitor.sequential.blocks import BlockBets
from monitor.sequential.budget import share_budget
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change_point import ChangePoint, find_change
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import Alarm, Evidence
from monitor.sequential.naming import name_series
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.recovery import Recovery
from monitor.sequential.serving_map import ServingMapBets, bet_on_events
from monitor.sequential.shock import CommonShock, common_shock
from monitor.sequential.watch import AlarmEvent, Watch

__all__ = ["Alarm", "AlarmEvent", "Bets", "BlockBets", "CalibrationBets", "ChangePoint", "CommonShock", "Detector"]
__all__ += ["Evidence", "PrevalenceBets", "Recovery", "ServingMapBets", "Watch", "bet_on_events"]
__all__ += ["common_shock", "find_change", "name_series", "share_budget"]
