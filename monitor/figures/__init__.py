"""Pictures of calibration, made to be read by people who are not statisticians."""
