"""Releases: archives that an app team receives, with licences, build record, SBOM and provenance."""
