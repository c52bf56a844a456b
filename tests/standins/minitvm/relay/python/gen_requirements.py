"""Which Python packages the miniature needs, in the form of the relay era."""

REQUIREMENTS_BY_PIECE = [
    ("core", ("Base requirements", ["cloudpickle", "typing_extensions"])),
    ("dev", ("", [])),
]
CONSTRAINTS = [("cloudpickle", None), ("typing_extensions", "^4.0")]
