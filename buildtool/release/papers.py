"""The papers of a release: CycloneDX SBOM and SLSA provenance, the same bytes for the same release."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping
from typing import Any

from buildtool import __version__
from buildtool.core.errors import BuildFailed, ToolMissing

SBOM = "sbom.cdx.json"
PROVENANCE = "provenance.intoto.json"
BUILD_TYPE = "urn:buildtool:release:1"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
_NAMESPACE = uuid.UUID("5f7f9c8e-6e0d-5a53-9a29-0a6d2f8f0b11")
# Parts of TVM that are in its runtime libraries, with their licences.
_PARTS = (("tvm-ffi", "Apache-2.0"), ("dlpack", "Apache-2.0"), ("libbacktrace", "BSD-3-Clause"))


def _missing(exc: ImportError) -> ToolMissing:
    return ToolMissing(f"the SBOM needs a package: {exc.name}", fix="pip install 'buildtool[release]'")


def sbom(record: Mapping[str, Any]) -> str:
    """A CycloneDX 1.6 SBOM of the release that ``record`` describes; ToolMissing without the library."""
    try:
        from cyclonedx.model import HashAlgorithm, HashType, Property
        from cyclonedx.model.bom import Bom
        from cyclonedx.model.component import Component, ComponentType
        from cyclonedx.model.license import LicenseExpression
        from cyclonedx.output import make_outputter
        from cyclonedx.schema import OutputFormat, SchemaVersion
        from packageurl import PackageURL
    except ImportError as exc:
        raise _missing(exc) from exc
    source = record["source"]
    name = f"tvm-runtime-{record['profile']}-{record['abi']}"
    subject = Component(
        name=name,
        version=source["version"],
        type=ComponentType.LIBRARY,
        bom_ref=name,
        purl=PackageURL("github", "apache", "tvm", source["version"]),
        licenses=[LicenseExpression("Apache-2.0")],
        properties=[Property(name="buildtool:pin", value=source["pin"])],
    )
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, json.dumps(record["files"], sort_keys=True)))
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(source["epoch"], datetime.timezone.utc)
    bom.metadata.component = subject
    bom.metadata.tools.components.add(
        Component(name="buildtool", version=__version__, type=ComponentType.APPLICATION, bom_ref="buildtool")
    )
    parts = [
        Component(name=part, type=ComponentType.LIBRARY, bom_ref=part, licenses=[LicenseExpression(licence)])
        for part, licence in _PARTS
        if any(part in file for file in record["files"])
    ]
    files = [
        Component(
            name=file,
            type=ComponentType.FILE,
            bom_ref=f"file:{file}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
        for file, digest in record["files"].items()
        if file.startswith(("bin/", "lib/"))
    ]
    for component in (*parts, *files):
        bom.components.add(component)
    bom.register_dependency(subject, [*parts, *files])
    text: str = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    return text + "\n"


def check_sbom(text: str, record: Mapping[str, Any]) -> None:
    """Raise BuildFailed when the SBOM does not fit its schema, or names other files than the record."""
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError as exc:
        raise _missing(exc) from exc
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise BuildFailed("the SBOM does not fit CycloneDX 1.6", where=SBOM, found=str(problem)[:300])
    listed = {
        component["name"]: component["hashes"][0]["content"]
        for component in json.loads(text).get("components", ())
        if component.get("type") == "file"
    }
    wanted = {n: d for n, d in record["files"].items() if n.startswith(("bin/", "lib/"))}
    if listed != wanted:
        odd = sorted(n for n in {*listed, *wanted} if listed.get(n) != wanted.get(n))
        raise BuildFailed("the SBOM lists other files than the record", where=SBOM, found=", ".join(odd[:5]))


def provenance(record: Mapping[str, Any]) -> str:
    """An in-toto statement with SLSA provenance v1 about every file of the release."""
    kind, _, identity = record["source"]["pin"].partition(":")
    algorithm = {"git": "gitCommit", "sdist": "sha256", "archive": "sha256"}.get(kind)
    material: dict[str, Any] = {"name": "tvm", "annotations": {"pin": record["source"]["pin"]}}
    if algorithm is not None:
        material["digest"] = {algorithm: identity}
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": n, "digest": {"sha256": d}} for n, d in record["files"].items()],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "profile": record["profile"],
                    "abi": record["abi"],
                    "options": record["options"],
                },
                "internalParameters": {"toolchain": record["toolchain"]},
                "resolvedDependencies": [material],
            },
            "runDetails": {"builder": {"id": "urn:buildtool", "version": {"buildtool": record["buildtool"]}}},
        },
    }
    return json.dumps(statement, indent=2) + "\n"


def check_provenance(text: str, record: Mapping[str, Any]) -> None:
    """Raise BuildFailed when the statement has another form, or is about other files than the record."""
    try:
        statement = json.loads(text)
        types = statement["_type"], statement["predicateType"]
        builder = statement["predicate"]["runDetails"]["builder"]["id"]
        definition = statement["predicate"]["buildDefinition"]["buildType"]
        subjects = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
    except (ValueError, LookupError, TypeError) as exc:
        raise BuildFailed(f"not an in-toto statement: {exc!r}", where=PROVENANCE) from exc
    if types != (STATEMENT, PREDICATE) or definition != BUILD_TYPE or not builder:
        raise BuildFailed(
            "not a SLSA provenance v1 statement of buildtool", where=PROVENANCE, found=str(types)
        )
    if subjects != record["files"]:
        odd = sorted(n for n in {*subjects, *record["files"]} if subjects.get(n) != record["files"].get(n))
        raise BuildFailed("the provenance is about other files", where=PROVENANCE, found=", ".join(odd[:5]))
