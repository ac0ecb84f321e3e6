"""Reports of data at hand, and recalibration on it: values, text and pages, for command line and Python alike."""
