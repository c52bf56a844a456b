"""Checks on artifacts and on a device, and the report."""

from buildtool.verify.model import Outcome, Report, Result, Status
from buildtool.verify.runner import CHECKS, select, verify

__all__ = ["CHECKS", "Outcome", "Report", "Result", "Status", "select", "verify"]
