"""Build, verify and release Apache TVM for Qualcomm Adreno (Android and Linux) targets.

Importing this package is cheap on purpose: no third-party module is loaded
until a command needs it.
"""

__version__ = "0.1.0"
