"""Local calibration: errors among predictions that are alike in their features, too."""
