"""``buildtool devices``: what can be used with --device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from buildtool.cli.options import Json, SettingsFile
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import BuildtoolError

if TYPE_CHECKING:
    from buildtool.devices.listing import Row


def devices(
    settings: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """List the devices that can be used: emulated, those of buildtool.toml, and what adb sees.

    Asks each usable one for its properties. Exit code 0 also when none is plugged in; a device
    that can't be used is listed with what to do.

    Example: buildtool devices --json
    """
    from buildtool import settings as settings_room
    from buildtool.devices.listing import look

    rows, remarks = look(settings_room.load(settings))
    if as_json:
        print_json({"devices": [_as_dict(row) for row in rows], "remarks": remarks})
        return 0
    columns = ("spec", "kind", "state", "labels", "model", "abis", "api", "soc", "gpu", "free", "opencl")
    print_table(None, columns, [_cells(row) for row in rows])
    for row in rows:
        if row.error is not None:
            print(f"{row.spec}: {row.error.what}" + (f"  fix: {row.error.fix}" if row.error.fix else ""))
    for remark in remarks:
        screen.info(remark)
    return 0


def _cells(row: Row) -> list[object]:
    from buildtool.core.files import human_size

    head = [row.spec, row.kind, row.state, ", ".join(row.labels)]
    found = row.properties
    if found is None:
        return [*head, "", "", "", "", "", "", ""]
    opencl = (found.opencl or "none") + (" (not for apps)" if found.opencl_for_apps is False else "")
    free = human_size(found.free_bytes) if found.free_bytes is not None else ""
    return [*head, found.model, ", ".join(found.abis), found.api_level, found.soc, found.gpu, free, opencl]


def _as_dict(row: Row) -> dict[str, Any]:
    from dataclasses import asdict

    error: BuildtoolError | None = row.error
    return {
        "spec": row.spec,
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "labels": list(row.labels),
        "properties": asdict(row.properties) if row.properties else None,
        "error": error.as_dict() if error else None,
    }
