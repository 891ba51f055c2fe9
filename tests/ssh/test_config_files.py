"""A cut configuration answers for its host as the whole one does; and who lies on the way of a jump."""

from pathlib import Path

import pytest
from asyncssh.config import SSHClientConfig
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.sources.ssh.config_files import Parts, blocks
from gputop.sources.ssh.jumps import Hop, chain, read_hop

HOSTS = ("a", "b", "c10", "A")
PATTERN = st.sampled_from(("a", "b", "c10", "A", "c*", "!a *", "a b", "?", "a,b", '"a"', "* !b"))
OPENING = st.one_of(
    st.builds("{} {}".format, st.sampled_from(("Host", "host", "  HOST", "Host ")), PATTERN),
    st.builds("Host={}".format, PATTERN),
    st.builds("Match host {}".format, st.sampled_from(("a", "b,c10", "c*"))),
    st.just("Match all"),
)
OPTION = st.builds(
    "{} {}".format, st.sampled_from(("Port", "  port", "ServerAliveInterval")), st.integers(1, 9)
) | st.sampled_from(("User u1", "User=u2", "# Host a", "", "Hostname %h.x"))


@settings(deadline=None)
@given(st.lists(OPENING | OPTION, max_size=14), st.sampled_from(HOSTS))
def test_a_cut_configuration_answers_as_the_whole_does(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], host: str
) -> None:
    folder = tmp_path_factory.mktemp("config")
    text = "\n".join(lines) + "\n"
    assert answer(folder / "cut", Parts(blocks(text)).cut(host), host) == answer(folder / "whole", text, host)


def answer(path: Path, text: str, host: str) -> dict[str, object]:
    path.write_text(text)
    return SSHClientConfig.load(None, [path], False, False, False, "me", (), host, ()).get_options(reload=False)


def test_blocks_for_others_are_left_out() -> None:
    text = "User x\nHost a\n Port 1\nHost b\n Port 2\nHost *\n Port 3\n"
    assert Parts(blocks(text)).cut("b") == "User x\nHost b\n Port 2\nHost *\n Port 3\n"


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("login", Hop("login")),
        ("me@login:2222", Hop("login", "me", 2222)),
        ("ssh://me@login:22", Hop("login", "me", 22)),
        ("[::1]:2222", Hop("::1", "", 2222)),
        ("fe80::1", Hop("fe80::1")),
    ],
)
def test_a_jump_host_is_read(text: str, hop: Hop) -> None:
    assert read_hop(text) == hop


@pytest.mark.parametrize("text", ["", "me@", "login:http"])
def test_a_jump_host_that_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="ProxyJump"):
        read_hop(text)


def test_the_first_of_a_list_may_have_a_jump_of_its_own() -> None:
    jumps = {"gate": "", "bastion": "gate"}
    assert chain("n1", "me@bastion,inner", lambda name: jumps[name]) == ("gate", "me@bastion", "inner")


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "a", "b", "c", "a,b", "c,a"])))
def test_no_configuration_makes_the_way_endless(jumps: dict[str, str]) -> None:
    way = chain("a", jumps.get("a", "b"), lambda name: jumps.get(name, ""))
    assert "a" not in way
    assert len(set(way)) == len(way)
