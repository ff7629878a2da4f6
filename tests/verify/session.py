"""How pytest runs a verification: one container for each image, then one test for each check."""

from typing import Any

import pytest

from ascend_images import verifying
from ascend_images.errors import AscendImagesError
from ascend_images.verify.report import Report


class Session:
    """A pytest plugin: `test_check` for every check of every image; the reports when all is said."""

    def __init__(self, wishes: verifying.Wishes, place: verifying.Place, targets: tuple[verifying.Target, ...]) -> None:
        self.wishes, self.place, self.targets = wishes, place, targets
        self.reports: dict[str, Report] = {}
        self.failure: AscendImagesError | None = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        pairs = [(target, check) for target in self.targets for check in verifying.check_ids()]
        names = [f"{target.name} {check}" for target, check in pairs]
        metafunc.parametrize(("target", "check"), pairs, ids=names, scope="session")

    @pytest.fixture
    def report(self, target: verifying.Target, request: pytest.FixtureRequest) -> Report:
        """The report of an image; the first test that asks verifies it."""
        if target.name not in self.reports:
            try:
                self.reports[target.name] = verifying.verify_target(self.wishes, self.place, target)
            except AscendImagesError as error:
                # The engine is gone: nothing further can be asked of anything.
                self.failure = error
                pytest.exit(f"{target.name}: {error}", returncode=1)
        return self.reports[target.name]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        writer = terminalreporter._tw
        reports = list(self.reports.values())
        for line in verifying.tell(self.wishes, reports, width=writer.fullwidth, color=writer.hasmarkup):
            terminalreporter.write_line(line)
