"""The cases that run against both implementations. Each module is a topic, each function a case."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from answers import Notebook

Case = Callable[[Notebook], None]


def all_cases() -> Iterator[tuple[str, Case]]:
    """All cases with their names, `topic/case`."""
    for module in pkgutil.iter_modules(__path__):
        topic = importlib.import_module(f"{__name__}.{module.name}")
        for name, case in vars(topic).items():
            if callable(case) and not name.startswith("_") and case.__module__ == topic.__name__:
                yield f"{module.name}/{name}", case
