"""Reading one small file: its text, or the reason why not."""

import errno

from .columns import DENIED, ERROR, NOT_SUPPORTED


def read_text(path, limit=65536):
    """(text, "") or ("", reason)."""
    try:
        with open(path, "rb") as source:
            return source.read(limit).decode("utf-8", "replace"), ""
    except OSError as error:
        return "", reason(error)


def reason(error):
    """Why an OSError left us without a value."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return NOT_SUPPORTED
    if error.errno in (errno.EACCES, errno.EPERM):
        return DENIED
    return ERROR


def number(path):
    """The leading number of a file such as "4: ACTIVE" or "400 Gb/sec", or a reason."""
    text, why = read_text(path, 4096)
    if why:
        return why
    word = text.strip().split(":")[0].split(" ")[0]
    if word == "N/A":
        return NOT_SUPPORTED
    try:
        return float(word) if "." in word else int(word)
    except ValueError:
        return ERROR
