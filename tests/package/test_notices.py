"""scripts/notices lists exactly the linked crates, with the texts of their licences."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTICES = ROOT / "scripts" / "notices"
GNU, MUSL = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl"

# The crates that the program can use, each with additional lines of its manifest and its files.
CRATES: dict[str, tuple[str, dict[str, str]]] = {
    "own-text": (
        'license = "MIT"\n[dependencies]\ndeep = "1"',
        {"LICENSE-MIT": "MIT, by  Ann\n", "NOTICE": "Thank Ann."},
    ),
    "same-text": ('license = "MIT"', {"COPYING": "MIT,\nby Ann", "src/license.rs": "", "tests/LICENSE": "of a test"}),
    "deep": ('license-file = "terms.txt"', {"terms.txt": "Terms of deep.", "c/LICENSE": "C, by Cid"}),
    "textless": ('license = "MIT OR Apache-2.0"', {}),
    "macros": ('license = "MIT"\n[lib]\nproc-macro = true', {"LICENSE": "of macros"}),
    "built-with": ('license = "MIT"', {"LICENSE": "of a build script"}),
    "tested-with": ('license = "MIT"', {"LICENSE": "of tests"}),
    "elsewhere": ('license = "MIT"', {"LICENSE": "of another system"}),
    "proprietary": ('license = "LicenseRef-Secret"', {}),
}
PROGRAM = """
[package]
name = "program"
version = "1.0.0"
edition = "2021"

[features]
secret = ["dep:proprietary"]

[dependencies]
own-text = "1"
same-text = "1"
textless = "1"
macros = "1"
proprietary = { version = "1", optional = true }

[build-dependencies]
built-with = "1"

[dev-dependencies]
tested-with = "1"

[target.'cfg(windows)'.dependencies]
elsewhere = "1"
"""


class NoticesTest(unittest.TestCase):
    """A program with local crates, in a separate folder for each test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.write("src/main.rs", "fn main() {}")
        self.write(
            ".cargo/config.toml", '[source.crates-io]\nreplace-with = "here"\n[source.here]\ndirectory = "crates"\n'
        )
        for name, (manifest, files) in CRATES.items():
            head = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n'
            self.write(f"crates/{name}/Cargo.toml", head + manifest)
            self.write(f"crates/{name}/.cargo-checksum.json", json.dumps({"files": {}}))
            for path, content in {"src/lib.rs": "", **files}.items():
                self.write(f"crates/{name}/{path}", content)

    def write(self, path: str, content: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(content)

    def notices(self, triple: str = GNU, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
        self.write("Cargo.toml", program)
        subprocess.run(["cargo", "generate-lockfile", "--offline"], cwd=self.folder, check=True, capture_output=True)
        return subprocess.run([NOTICES, "program", triple, "notices"], cwd=self.folder, capture_output=True, text=True)

    def written(self, triple: str = GNU) -> list[str]:
        """Runs scripts/notices. Returns the parts of its output."""
        done = self.notices(triple)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "notices").read_text().split(f"\n\n{'=' * 80}\n\n")

    def test_exactly_the_linked_crates_are_listed_with_their_licences(self) -> None:
        listed = self.written()[0].splitlines()[2:]
        self.assertEqual(
            listed,
            [
                "deep 1.0.0: see below",
                "own-text 1.0.0: MIT",
                "same-text 1.0.0: MIT",
                "textless 1.0.0: MIT OR Apache-2.0",
                "the Rust standard library: MIT OR Apache-2.0",
            ],
        )

    def test_each_text_is_there_once_and_names_its_crates(self) -> None:
        _, *parts = self.written()
        apache = (ROOT / "LICENSE-APACHE").read_text().strip()
        self.assertCountEqual(
            [part.strip() for part in parts],
            [
                f"the Rust standard library, textless 1.0.0:\n\n{apache}",
                "deep 1.0.0:\n\nC, by Cid",
                "deep 1.0.0:\n\nTerms of deep.",
                "own-text 1.0.0, same-text 1.0.0:\n\nMIT, by  Ann",
                "own-text 1.0.0:\n\nThank Ann.",
            ],
        )

    def test_a_program_linked_with_musl_lists_musl(self) -> None:
        listed, *parts = self.written(MUSL)
        self.assertIn("musl: MIT", listed)
        (musl,) = (part for part in parts if part.startswith("musl:"))
        self.assertIn("Rich Felker", musl)
        self.assertIn("Permission is hereby granted, free of charge", musl)
        self.assertNotIn("The Comeback authors", musl)

    def test_the_output_does_not_depend_on_the_location_of_the_crates(self) -> None:
        first = self.written()
        self.setUp()
        self.assertEqual(self.written(), first)

    def test_a_licence_without_a_text_is_refused(self) -> None:
        refused = self.notices(program=PROGRAM.replace("[features]", '[features]\ndefault = ["secret"]'))
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(
            refused.stderr, "proprietary 1.0.0 has no file with its licence, which is 'LicenseRef-Secret'\n"
        )


if __name__ == "__main__":
    unittest.main()
