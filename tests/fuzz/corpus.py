"""The corpus of a fuzz target: one file, corpus/TARGET.json, with one input a line.

    python3 tests/fuzz/corpus.py unpack TARGET FOLDER        writes each input as a file
    python3 tests/fuzz/corpus.py pack TARGET FOLDER          replaces the corpus by the files of a folder
    python3 tests/fuzz/corpus.py add TARGET NAME FILE        adds one input under a name

Each character of an input stands for one byte (Latin-1), so most inputs are readable, and a changed input shows up as a
changed line.
"""

import json
import sys
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def read(target: str) -> dict[str, bytes]:
    inputs = json.loads((CORPUS / f"{target}.json").read_text(encoding="utf-8"))
    return {name: text.encode("latin-1") for name, text in inputs.items()}


def write(target: str, inputs: dict[str, bytes]) -> None:
    texts = {name: inputs[name].decode("latin-1") for name in sorted(inputs)}
    text = json.dumps(texts, indent=0)
    (CORPUS / f"{target}.json").write_text(text + "\n")


def main() -> None:
    match sys.argv[1:]:
        case "unpack", target, folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, content in read(target).items():
                Path(folder, name).write_bytes(content)
        case "pack", target, folder:
            write(target, {path.name: path.read_bytes() for path in Path(folder).iterdir()})
        case "add", target, name, file:
            write(target, read(target) | {name: Path(file).read_bytes()})
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
