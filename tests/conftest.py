"""Fixtures for all tests, and a closing line that says why lab tests were skipped."""

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.lab.fixtures import lab, lab_session
from tests.lab.needs import missing

__all__ = ["lab", "lab_session"]

# The same examples in every run: a red test is a change of ours, never of luck.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every test that is marked so is skipped, with the reason, where no lab can run."""
    if item.get_closest_marker("lab") and (why := missing()):
        pytest.skip(why)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    if why := missing():
        terminalreporter.write_line(f"lab tests were skipped: {why}")


@pytest.fixture(autouse=True)
def no_foreign_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own settings change nothing."""
    for name in ("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
