"""The configuration: found, checked, chosen; every error names file, key and what was expected."""

from pathlib import Path

import pytest

from gputop.cli import main
from gputop.config import choose_cluster, find_config, load_config
from gputop.model.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A foreign home with no configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_DIRS", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[clusters.a]\nperiod = 'x'", "clusters[...].period: expected `float`, got `str`"),
        ("[clusters.a]\nperiod = 0", "period: expected `float` >= 1"),
        ("[clusters.a]\nperoid = 5", "contains unknown field `peroid`"),
        ("[clusters.a]\nhost = 'fixed'", "clusters.a.host: expected a pattern with {node}"),
        ("[clusters.'../a']", "expected a name of letters"),
        ("default = 'b'\n[clusters.a]", "'b' is not among the clusters: a"),
        ("[clusters.a", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_its_key_and_what_was_expected(
    tmp_path: Path, text: str, words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        load_config(path)
    assert str(path) in str(refusal.value)
    assert words in str(refusal.value)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(find_config(str(tmp_path / "none.toml")))


def test_without_a_file_the_cluster_is_the_one_that_slurm_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("# ClusterName=no\nSlurmctldHost=a\nclustername=alpha\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    chosen = choose_cluster(load_config(find_config(None)), None)
    assert chosen.name == "alpha"
    assert chosen.key.startswith("alpha-")


def test_two_clusters_of_one_name_have_different_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for folder in ("one", "two"):
        conf = tmp_path / folder / "slurm.conf"
        conf.parent.mkdir()
        conf.write_text("ClusterName=alpha\n")
        monkeypatch.setenv("SLURM_CONF", str(conf))
        keys.add(choose_cluster(load_config(None), None).key)
    assert len(keys) == 2


def test_one_of_several_clusters_has_to_be_named(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "[clusters.a]\n[clusters.b]\n"))
    with pytest.raises(ConfigError, match="a, b"):
        choose_cluster(config, None)
    with pytest.raises(ConfigError, match="no cluster 'c'"):
        choose_cluster(config, "c")
    assert choose_cluster(config, "b").name == "b"


def test_the_users_file_is_found_in_the_xdg_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "gputop"
    folder.mkdir(parents=True)
    path = write(folder, "[clusters.a]\nlogin = 'head'\n")
    assert find_config(None) == path
    assert choose_cluster(load_config(path), None).cluster.login == "head"


@pytest.mark.parametrize("command", [["config", "check"], ["snapshot"]])
def test_a_wrong_rule_names_the_file(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[rules.GPU006]\npasse = 3\n")
    assert main(["--config", str(path), *command]) == 2
    assert f"{path}: rules.GPU006.passe: expected off, passes" in capsys.readouterr().err


def test_whole_numbers_are_thresholds_too(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[rules.HOST001]\npercent = 85\n")
    assert main(["--config", str(path), "config", "check"]) == 0
