"""The error tree: the class says whether to try again, the message says what happened, to what, and what to do.

GputopError
├── ConfigError            a file, key or value the user gave; exit 2
├── SourceError            something could not be asked; never means that nothing is there
│   └── SourceDown         nobody answered; try again later
├── LogError               a session log that cannot be read or written
└── EngineError            no engine, or it is not ours to use
"""


class GputopError(Exception):
    """Root of every error that a user can meet."""


class ConfigError(GputopError):
    """A configuration the user must change; the message names file, key and what was expected."""


class SourceError(GputopError):
    """A tool answered with an error, or with something we cannot read."""

    def __init__(self, subject: str, detail: str) -> None:
        super().__init__(f"{subject}: {detail}")
        self.subject = subject
        self.detail = detail


class SourceDown(SourceError):
    """Nobody answered in time; what was known before stays known, and grows stale."""


class LogError(GputopError):
    """A session log that cannot be opened, read or written."""


class EngineError(GputopError):
    """The engine cannot start, or cannot be reached."""
