"""The platforms that the program is built for, and what registries and installers call each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    system: str
    arch: str
    triple: str
    # The binary is static, so one wheel serves both C libraries.
    wheel: str
    npm: tuple[str, str]
    # What `uname -s` and `uname -m` print, as a pattern of the shell.
    uname: str

    @property
    def name(self) -> str:
        return f"{self.system}-{self.arch}"

    @property
    def built(self) -> str:
        """The folder below dist."""
        return self.arch if self.system == "linux" else self.name


PLATFORMS = [
    Platform(
        "linux",
        "x86_64",
        "x86_64-unknown-linux-musl",
        "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
        ("linux", "x64"),
        "Linux-x86_64 | Linux-amd64",
    ),
    Platform(
        "linux",
        "arm64",
        "aarch64-unknown-linux-musl",
        "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
        ("linux", "arm64"),
        "Linux-aarch64 | Linux-arm64",
    ),
    Platform("macos", "x86_64", "x86_64-apple-darwin", "macosx_10_12_x86_64", ("darwin", "x64"), "Darwin-x86_64"),
    Platform("macos", "arm64", "aarch64-apple-darwin", "macosx_11_0_arm64", ("darwin", "arm64"), "Darwin-arm64"),
]
