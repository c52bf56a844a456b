"""unit: fast, no builds. e2e: real programs. cases: one test per kind of public fault. standins: fakes."""
