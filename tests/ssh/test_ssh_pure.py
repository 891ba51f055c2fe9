"""Frames out of noise, failures in words, nvidia-smi's answers, and lines for a shell where there is no other way."""

import re

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.errors import SourceError
from gputop.model.hosts import LinkState
from gputop.sources.ssh.failures import classify, lacks_python, no_probe
from gputop.sources.ssh.framing import FrameReader
from gputop.sources.ssh.host import retry_delay
from gputop.sources.ssh.login import shell_line
from gputop.sources.ssh.nvidia_smi import (
    COLUMNS,
    FIELDS,
    WORDS,
    cell,
    lost_row,
    parse_rows,
    says_lost,
    supported_fields,
)


def frame(payload: bytes, nonce: bytes = b"n0") -> bytes:
    return b"\x01" + nonce + b" " + str(len(payload)).encode() + b"\n" + payload + b"\n"


@given(st.lists(st.binary(max_size=40), max_size=6), st.binary(max_size=30), st.integers(1, 9))
def test_frames_are_found_in_noise_however_the_bytes_arrive(payloads: list[bytes], noise: bytes, step: int) -> None:
    noise = noise.replace(b"\x01", b"")
    stream = noise + noise.join(frame(payload) for payload in payloads) + noise
    reader, found = FrameReader("n0"), []
    for at in range(0, len(stream), step):
        found += reader.feed(stream[at : at + step])
    assert found == payloads


def test_another_sessions_mark_is_noise() -> None:
    assert FrameReader("n0").feed(frame(b"forged", b"n1") + frame(b"ours")) == [b"ours"]


@pytest.mark.parametrize("header", [b"\x01n0 999999999999\n", b"\x01n0 -5\n", b"\x01n0 " + b"1" * 200])
def test_a_length_that_nobody_of_ours_sends_ends_the_session(header: bytes) -> None:
    with pytest.raises(SourceError):
        FrameReader("n0").feed(header)


@pytest.mark.parametrize(
    ("error", "banner", "state"),
    [
        (asyncssh.HostKeyNotVerifiable("Host key is not trusted"), "", LinkState.HOST_KEY),
        (asyncssh.PermissionDenied("Permission denied"), "", LinkState.AUTH_FAILED),
        (asyncssh.PermissionDenied("x"), "Access denied by pam_slurm_adopt: no active jobs", LinkState.DENIED),
        (asyncssh.ConnectionLost("Connection lost"), "", LinkState.REFUSED),
        (TimeoutError(), "", LinkState.TIMEOUT),
        (ConnectionRefusedError(), "", LinkState.REFUSED),
        (OSError(113, "No route to host"), "", LinkState.REFUSED),
        (RuntimeError("surprise"), "", LinkState.NO_PROBE),
    ],
)
def test_a_failure_has_a_state_and_words(error: Exception, banner: str, state: LinkState) -> None:
    found, words = classify(error, banner)
    assert found is state
    assert words


def test_no_key_at_all_says_what_to_do() -> None:
    assert "ssh-add" in classify(asyncssh.PermissionDenied("x"), has_keys=False)[1]


def test_a_missing_python_is_told_from_a_broken_probe() -> None:
    assert lacks_python(127, "sh: 1: exec: python3: not found")
    assert not lacks_python(1, "SyntaxError")
    assert no_probe(1, "Traceback\nSyntaxError: x", b"")[0] is LinkState.NO_PROBE


@given(st.integers(1, 50), st.sampled_from(list(LinkState)), st.floats(0, 1))
def test_the_next_try_is_neither_at_once_nor_never(tries: int, state: LinkState, jitter: float) -> None:
    assert 0.5 <= retry_delay(tries, state, jitter) <= 90


@given(st.text(max_size=20))
def test_only_plain_numbers_and_known_words_become_numbers(text: str) -> None:
    word = text.strip().lower()
    plain = re.fullmatch(r"-?\d+(\.\d+)?|0x[0-9a-f]{1,16}|p\d{1,2}", word, re.ASCII) is not None
    assert isinstance(cell(text), str) is not (plain or word in WORDS)


@pytest.mark.parametrize(
    "text", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "ERR!", ""]
)
def test_no_word_for_nothing_becomes_a_number(text: str) -> None:
    assert str(cell(text)).startswith("~")


def test_a_row_is_read_and_a_damaged_one_is_left_out() -> None:
    fields = (
        "index",
        "uuid",
        "pci.bus_id",
        "name",
        "driver_version",
        "temperature.gpu",
        "utilization.gpu",
        "ecc.mode.current",
    )
    output = "0, GPU-a, 00000000:9B:00.0, H100, 590.1, 41, [N/A], Enabled\n1, GPU-b, oops\n"
    (row,), driver = parse_rows(fields, output)
    cells = dict(zip(COLUMNS, row.cells, strict=True))
    assert (row.pci, driver) == ("0000:9b:00", "590.1")
    assert (cells["temp"], cells["util"], cells["ecc_mode"], cells["power"]) == (41.0, "~not_supported", 1, None)


def test_only_fields_that_this_release_knows_are_asked() -> None:
    assert supported_fields('"index"\nx\n"temperature.gpu"\n') == ("index", "temperature.gpu")
    assert set(FIELDS.values()) <= set(COLUMNS)


def test_one_lost_gpu_is_told_from_no_gpu() -> None:
    assert says_lost("Unable to determine the device handle for GPU0000:91:00.0: Unknown Error")
    assert not says_lost("No devices were found")
    assert set(lost_row(3, None).cells[1:]) == {"~lost"}


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_a_shell_line_gives_the_same_arguments_back_or_refuses(argv: list[str]) -> None:
    import shlex

    try:
        line = shell_line(tuple(argv))
    except ValueError:
        assert any(not char.isprintable() for token in argv for char in token)
        return
    assert shlex.split(line)[-len(argv) :] == argv


def test_a_newline_never_reaches_a_shell() -> None:
    with pytest.raises(ValueError, match="control character"):
        shell_line(("scontrol", "update", "reason=a\nreboot"))
