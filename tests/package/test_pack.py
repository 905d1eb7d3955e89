"""The zips of scripts/pack."""

import hashlib
import os
import random
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

PACK = Path(__file__).resolve().parents[2] / "scripts" / "pack"


class PackTest(unittest.TestCase):
    """Two programs and their licence notices, in a separate folder for each test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        # Random bytes, which a zip can't compress.
        self.contents = {"bin/proxy": random.Random(1).randbytes(100_000), "wrapper": b"#!/bin/sh\n"}
        for program, content in self.contents.items():
            file = self.folder / Path(program).name
            file.write_bytes(content)
            file.chmod(0o600)
        (self.folder / "notices").write_text("MIT")

    def run_pack(self, name: str, mebibytes_max: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [PACK, self.folder / name, mebibytes_max, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def pack(self, name: str, programs: list[str], mebibytes_max: str = "1") -> subprocess.CompletedProcess[str]:
        arguments = [f"{program}={self.folder / Path(program).name}" for program in programs]
        return self.run_pack(name, mebibytes_max, *arguments, "--text", f"NOTICES.txt={self.folder / 'notices'}")

    def test_everybody_may_run_the_programs_and_read_the_notices(self) -> None:
        self.assertEqual(self.pack("new/folder/a.zip", [*self.contents]).returncode, 0)
        with zipfile.ZipFile(self.folder / "new/folder/a.zip") as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
            self.assertEqual(contents, {**self.contents, "NOTICES.txt": b"MIT"})
            modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
            self.assertEqual(modes, {"NOTICES.txt": 0o100644, "bin/proxy": 0o100755, "wrapper": 0o100755})
            # Unpackers ignore the mode unless the entry comes from Unix.
            self.assertEqual({entry.create_system for entry in archive.infolist()}, {3})

    def test_a_zip_without_licence_notices_is_refused(self) -> None:
        refused = self.run_pack("a.zip", "1", f"wrapper={self.folder / 'wrapper'}")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("required: --text", refused.stderr)
        self.assertFalse((self.folder / "a.zip").exists())

    def test_times_modes_and_order_do_not_change_the_zip(self) -> None:
        self.pack("first.zip", ["bin/proxy", "wrapper"])
        for file in ("proxy", "wrapper"):
            os.utime(self.folder / file, (1_000_000_000, 1_000_000_000))
        (self.folder / "wrapper").chmod(0o755)
        self.pack("second.zip", ["wrapper", "bin/proxy"])
        first, second = ((self.folder / name).read_bytes() for name in ("first.zip", "second.zip"))
        self.assertEqual(first, second)

    def test_the_printed_size_and_hash_are_those_of_the_zip(self) -> None:
        said = self.pack("a.zip", [*self.contents]).stdout
        written = (self.folder / "a.zip").read_bytes()
        self.assertIn(f"a.zip: {len(written):,} bytes, 0.10 MiB", said)
        self.assertIn(hashlib.sha256(written).hexdigest(), said)

    def test_a_zip_over_its_limit_is_deleted(self) -> None:
        self.pack("a.zip", ["wrapper"])
        refused = self.pack("a.zip", [*self.contents], mebibytes_max="0.09")
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(
            refused.stderr, r"^\S*/a\.zip: 100,\d{3} bytes, 0\.10 MiB, more than the limit of 0\.09 MiB\n$"
        )
        self.assertFalse((self.folder / "a.zip").exists())

    def test_a_missing_program_is_named(self) -> None:
        refused = self.pack("a.zip", ["bin/proxy", "bin/other"])
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"{self.folder}/other", refused.stderr)
        self.assertFalse((self.folder / "a.zip").exists())


if __name__ == "__main__":
    unittest.main()
