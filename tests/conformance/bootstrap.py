"""A program as the code of a function."""

import io
import zipfile

# The owner's regular file that everybody may run.
EXECUTABLE = 0o100755 << 16


def zipped(program: bytes) -> bytes:
    """A zip of the program as `bootstrap`; the same program gives the same zip."""
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = EXECUTABLE
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, program)
    return file.getvalue()
