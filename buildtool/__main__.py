"""``python -m buildtool``."""

from buildtool.cli.main import run

run()
