"""Local calibration: errors among predictions with similar features."""

from monitor.local.calibration import (
    LocalCalibration,
    LocalLevel,
    group_calibration_error,
    local_calibration_error,
    mlce_curve,
)
from monitor.local.features import Embedding, PrincipalComponents, Standardised
from monitor.local.landscape import LocalMap, local_error_map

__all__ = ["Embedding", "LocalCalibration", "LocalLevel", "LocalMap", "PrincipalComponents"]
__all__ += ["Standardised"]
__all__ += ["group_calibration_error", "local_calibration_error", "local_error_map", "mlce_curve"]
