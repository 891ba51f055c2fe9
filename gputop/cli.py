"""The command line: arguments in, rooms wired, exit codes out. Heavy rooms are imported on the path that uses them."""

import argparse
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from gputop.diagnostics import Exit, say
from gputop.model.errors import ConfigError, EngineError, GputopError, LogError, SourceError

KINDS = ("drain", "resume", "requeue", "requeue-excluding", "hold", "release", "cancel")


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(
        prog="gputop",
        description="Watch a Slurm GPU cluster, see what is broken, and act on it with one key.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused, 4 contradicted, 5 unknown, "
        "6 unreachable.",
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    top.add_argument(
        "--cluster", metavar="NAME", help="which configured cluster; default: the only one, or Slurm's here"
    )
    top.add_argument("--config", metavar="FILE", help="configuration file instead of the one in the XDG folders")
    top.add_argument("--read-only", action="store_true", help="refuse every action")
    top.add_argument("--record", metavar="FILE", help="also record this session to FILE")
    top.add_argument("--replay", metavar="FILE", help="show a session log instead of a cluster")
    top.set_defaults(run=_screen)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    snapshot = commands.add_parser("snapshot", help="one observation of everything, then exit")
    snapshot.add_argument("--json", action="store_true", help="one documented JSON object")
    snapshot.set_defaults(run=_snapshot)

    act = commands.add_parser("act", help="the same guarded path as on the screen, from a shell")
    act.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    act.add_argument("targets", nargs="+", metavar="TARGET", help="node names, or job ids such as 123 or 123_4")
    act.add_argument("--exclude", default="", metavar="NODES", help="for requeue-excluding: a hostlist of nodes")
    act.add_argument("--note", default="", metavar="TEXT", help="goes into the reason after our mark")
    act.add_argument(
        "--confirm",
        default="",
        metavar="WORD",
        help="the word the card asks for: cancel, or the node of a foreign drain",
    )
    act.add_argument("--dry-run", action="store_true", help="show the card and act on nothing")
    act.add_argument("--json", action="store_true", help="one JSON object a target")
    act.set_defaults(run=_act)

    log = commands.add_parser("log", help="look into a session log")
    logs = log.add_subparsers(required=True, metavar="WHAT")
    for name, what in (("info", "what is in it"), ("export", "as NDJSON on standard output")):
        one = logs.add_parser(name, help=what)
        one.add_argument("file", metavar="FILE")
        one.set_defaults(run=_log_info if name == "info" else _log_export)
        if name == "info":
            one.add_argument("--json", action="store_true")

    doctor = commands.add_parser("doctor", help="name each thing that is missing, and how to get it")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(run=_doctor)

    explained = commands.add_parser("explain", help="what a rule sees, why it matters, and how to tune it")
    explained.add_argument("rule", nargs="?", metavar="RULE", help="such as GPU006; without it all rules are listed")
    explained.set_defaults(run=_explain)

    demo = commands.add_parser(
        "demo",
        help="a simulated cluster to try everything on",
        description="Starts a simulated Slurm GPU cluster on this machine and opens the screen on it. Nothing leaves "
        "the machine; everything is gone afterwards.",
    )
    demo.add_argument("--nodes", type=int, metavar="N", help="how many nodes; default: as the scenario says, mostly 64")
    demo.add_argument("--scenario", default="guided", metavar="NAME|FILE", help="what goes wrong; default: guided")
    demo.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed gives the same day; default: 1")
    demo.add_argument(
        "--headless",
        action="store_true",
        help="no screen: play the scenario with its right reactions in virtual time, and print events as JSON lines",
    )
    demo.add_argument("--list", action="store_true", help="name the scenarios that come with gputop")
    demo.set_defaults(run=_demo)

    config = commands.add_parser("config", help="the configuration")
    configs = config.add_subparsers(required=True, metavar="WHAT")
    for name, what in (("show", "what is in force, and from where"), ("check", "whether it is valid")):
        one = configs.add_parser(name, help=what)
        one.set_defaults(run=_config_show if name == "show" else _config_check)
    return top


def main(argv: list[str] | None = None) -> int:
    """Runs one command; every error a user can meet ends here as one line."""
    os.umask(0o077)
    arguments = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    if arguments.version:
        run = _version
    try:
        return run(arguments)
    except ConfigError as error:
        say(str(error))
        return Exit.USAGE
    except (SourceError, EngineError) as error:
        say(str(error))
        return Exit.UNREACHABLE
    except (LogError, GputopError) as error:
        say(str(error))
        return Exit.FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _version(_arguments: argparse.Namespace) -> int:
    from importlib.metadata import version

    print(f"gputop {version('gputop-cluster')}")
    return Exit.OK


def _run(work: Coroutine[Any, Any, int]) -> int:
    import uvloop

    return uvloop.run(work)


def _screen(arguments: argparse.Namespace) -> int:
    if arguments.replay:
        if arguments.record:
            raise ConfigError("--record and --replay exclude each other: a replay is recorded already")
        return _replay(arguments)
    if not sys.stdout.isatty():
        raise ConfigError("the screen needs a terminal; for scripts there is gputop snapshot --json")
    from gputop.config import choose_cluster, find_config, load_config
    from gputop.engine.launch import EngineFeed
    from gputop.tui.app import run

    path = find_config(arguments.config)
    chosen = choose_cluster(load_config(path), arguments.cluster)
    read_only = arguments.read_only or chosen.cluster.read_only
    record = Path(arguments.record) if arguments.record else None
    feed = EngineFeed(chosen, path, read_only=read_only, record=record)
    return run(feed, read_only=read_only, theme=chosen.screen.theme or None)


def _replay(arguments: argparse.Namespace) -> int:
    from gputop.config import find_config, load_config
    from gputop.engine.clock import SystemClock
    from gputop.stream.feed import ReplayFeed
    from gputop.stream.log_reader import SessionReader
    from gputop.tui.app import run

    screen = load_config(find_config(arguments.config)).screen
    feed = ReplayFeed(SessionReader(Path(arguments.replay)), SystemClock())
    return run(feed, read_only=True, theme=screen.theme or None)


def _snapshot(arguments: argparse.Namespace) -> int:
    from gputop.config import choose_cluster, find_config, load_config
    from gputop.detect.registry import choose
    from gputop.engine.commands import snapshot

    path = find_config(arguments.config)
    config = load_config(path)
    rules = choose(config.rules, path)
    return _run(snapshot(choose_cluster(config, arguments.cluster), rules, as_json=arguments.json))


def _act(arguments: argparse.Namespace) -> int:
    from gputop.config import choose_cluster, find_config, load_config
    from gputop.engine.commands import act

    path = find_config(arguments.config)
    chosen = choose_cluster(load_config(path), arguments.cluster)
    return _run(act(chosen, path, arguments))


def _log_info(arguments: argparse.Namespace) -> int:
    from gputop.engine.commands import log_info

    return log_info(Path(arguments.file), as_json=arguments.json)


def _log_export(arguments: argparse.Namespace) -> int:
    from gputop.stream.export import export

    for line in export(Path(arguments.file)):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return Exit.OK


def _doctor(arguments: argparse.Namespace) -> int:
    from gputop.config import find_config
    from gputop.engine.doctor import doctor

    return _run(doctor(find_config(arguments.config), arguments.cluster, as_json=arguments.json))


def _demo(arguments: argparse.Namespace) -> int:
    from gputop.demo.scenario import load_scenario, parse_scenario, shipped

    if arguments.list:
        for name, text in shipped().items():
            print(f"{name:<16} {parse_scenario(text, name).about}")
        return Exit.OK
    scenario = load_scenario(arguments.scenario)
    nodes = scenario.nodes if arguments.nodes is None else arguments.nodes
    if not scenario.least_nodes <= nodes <= 4096:
        raise ConfigError(f"--nodes: scenario {scenario.name} goes with {scenario.least_nodes} to 4096; got {nodes}")
    if arguments.headless:
        import msgspec

        from gputop.demo.headless import play

        play(scenario, nodes=nodes, seed=arguments.seed, tell=lambda event: print(msgspec.json.encode(event).decode()))
        return Exit.OK
    if not sys.stdout.isatty():
        raise ConfigError("the screen needs a terminal; for scripts there is gputop demo --headless")
    return _demo_screen(arguments, nodes)


def _demo_screen(arguments: argparse.Namespace, nodes: int) -> int:
    from gputop.config import find_config, load_config
    from gputop.demo.guide import Guide
    from gputop.demo.live import Demo
    from gputop.demo.scenario import load_scenario
    from gputop.engine.launch import EngineFeed
    from gputop.tui.app import run

    theme = load_config(find_config(arguments.config)).screen.theme or None
    record = Path(arguments.record) if arguments.record else None
    say(f"starting a simulated cluster of {nodes} nodes")
    demo = Demo.start(arguments.scenario, nodes=nodes, seed=arguments.seed)
    try:
        feed = EngineFeed(demo.chosen, demo.config, read_only=arguments.read_only, record=record)
        guide = Guide(load_scenario(arguments.scenario), demo.began)
        return run(feed, read_only=arguments.read_only, theme=theme, guide=guide.line)
    finally:
        demo.close()


def _config_show(arguments: argparse.Namespace) -> int:
    import msgspec

    from gputop.config import find_config, load_config

    path = find_config(arguments.config)
    config = load_config(path)
    print(f"# {path or 'no file found: these are the defaults'}")
    print(msgspec.json.format(msgspec.json.encode(config)).decode())
    return Exit.OK


def _explain(arguments: argparse.Namespace) -> int:
    from gputop.detect.explain import explain, listing

    print(explain(arguments.rule) if arguments.rule else listing())
    return Exit.OK


def _config_check(arguments: argparse.Namespace) -> int:
    from gputop.config import find_config, load_config
    from gputop.detect.registry import choose

    path = find_config(arguments.config)
    choose(load_config(path).rules, path)
    print(f"{path}: valid" if path else "no configuration file; the defaults apply")
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
