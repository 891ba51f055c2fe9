"""One lab for all tests that need it."""

from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab

NODES = 16
NO_PYTHON = "gpu0016"
"""The node that has no python3, for the nvidia-smi fallback."""


@pytest.fixture(scope="session")
def lab_session() -> Iterator[Lab]:
    with Lab(NODES, without_python=(NO_PYTHON,)) as lab:
        yield lab.start()


@pytest.fixture
def lab(lab_session: Lab) -> Iterator[Lab]:
    """The lab, clean again after the test."""
    yield lab_session
    lab_session.clean()
