"""Every error of the calls that the handler makes must have a name in shared/core/src/fault.rs."""

import re
import unittest
from pathlib import Path

import botocore.session

CALLS = {"lambda": ["Invoke"], "sqs": ["SendMessageBatch", "ChangeMessageVisibilityBatch"]}


class FaultTest(unittest.TestCase):
    def test_every_error_of_awss_models_has_a_name(self) -> None:
        core = Path(__file__).resolve().parents[2] / "shared" / "core" / "src" / "fault.rs"
        code = core.read_text().partition("#[cfg(test)]")[0]
        names = set(re.findall(r'"(\w+)"', code))
        suffixes = tuple(re.findall(r'ends_with\("(\w+)"\)', code))
        session = botocore.session.Session()
        for service, operations in CALLS.items():
            model = session.get_service_model(service)
            for operation in operations:
                for shape in model.operation_model(operation).error_shapes:
                    name = shape.name.removesuffix("Exception")
                    with self.subTest(operation=operation, error=shape.name):
                        self.assertTrue(name in names or name.endswith(suffixes), f"{core.name} does not name {name}")


if __name__ == "__main__":
    unittest.main()
