"""Checks on artifacts and on a device, and the report."""
