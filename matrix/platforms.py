"""What the rules may ask of a machine, derived from its row in `platforms.yaml`."""

from __future__ import annotations

from typing import Any


def platform_values(row: dict[str, Any]) -> dict[str, Any]:
    """Return the plain `platform.*` values (without the prefix) of one machine.

    `capability` is major * 10 + minor (90 for SM90, 121 for SM121); `cuda` is the version's text
    (compare it with `at_least`); `memory_mib` is in MiB.
    """
    capability = row.get("capability") or (None, None)
    major, minor = capability
    return {
        "name": row["name"],
        "kind": row["kind"],
        "architecture": row["architecture"],
        "major": major,
        "minor": minor,
        "capability": None if major is None else major * 10 + minor,
        "cuda": row.get("cuda"),
        "cuda_major": None if not row.get("cuda") else int(row["cuda"].split(".")[0]),
        "memory_mib": row["memory_mib"],
        "sms": row.get("sms"),
        "device_name": row.get("device_name"),
        "gcn_arch": row.get("gcn_arch"),
        "amx": row.get("amx", False),
        "fp64": row.get("fp64", False),
    }
