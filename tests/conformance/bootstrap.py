"""Packs a program as the code of a function."""

import io
import zipfile

# The mode of a regular file that everybody may run.
EXECUTABLE = 0o100755 << 16


def zipped(program: bytes) -> bytes:
    """Makes a zip with the program as `bootstrap`. The same program always gives the same bytes."""
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = EXECUTABLE
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(entry, program, zipfile.ZIP_DEFLATED, 1)
    return file.getvalue()
