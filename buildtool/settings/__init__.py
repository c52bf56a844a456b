"""The typed model of buildtool.toml, precedence, and the lock file. Never reads the machine."""
