"""Software bills of materials: the crates that are linked into what is shipped, as CycloneDX 1.6 in JSON."""

import functools
import runpy
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# What scripts/notices lists is what a bill lists.
linked = functools.cache(runpy.run_path(str(ROOT / "scripts" / "notices"))["linked"])


def bill(version: str, name: str, purl: str, linkages: list[tuple[str, str]]) -> dict[str, Any]:
    """The bill of what is linked into these packages for these targets."""
    crates = {purl_of(crate): crate for linkage in linkages for crate in linked(*linkage)}
    checksums = {
        purl_of(crate): crate["checksum"]
        for crate in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        if "checksum" in crate
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            }
        },
        "components": [component(ref, crates[ref], checksums[ref]) for ref in sorted(crates)],
    }


def purl_of(crate: dict[str, Any]) -> str:
    """The package URL of a crate."""
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def component(ref: str, crate: dict[str, Any], checksum: str) -> dict[str, Any]:
    """A crate. Old ones separate the alternatives of their licence by a slash."""
    said = {
        "type": "library",
        "bom-ref": ref,
        "name": crate["name"],
        "version": crate["version"],
        "purl": ref,
        "hashes": [{"alg": "SHA-256", "content": checksum}],
    }
    if licence := crate["license"]:
        said["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    return said
