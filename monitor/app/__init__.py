"""Wiring: builds the parts from the settings, starts and stops the service."""
