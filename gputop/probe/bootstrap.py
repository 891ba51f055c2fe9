"""Packing the probe for a node: one command line, and so many bytes that it reads first. Runs in gputop's process."""

import ast
import functools
import importlib.util
import json
import os
import zlib
from typing import Any, Dict, Tuple

PACKAGE = "gputop_probe"
MODULES = (
    "columns", "files", "wire", "host_facts", "infiniband", "nvml_reader", "nvml_child", "nvml_link", "kernel_log",
    "main", "runner",
)  # fmt: skip

_COMMAND = (
    "exec python3 -IBS -c '"
    "import os,sys,zlib;n=int(sys.argv[1]);"
    "r=lambda b:b if len(b)==n else r(b+(os.read(0,n-len(b)) or sys.exit(3)));"
    "sys.setrecursionlimit(9999);exec(zlib.decompress(r(bytes())))' {size}"
)
"""No quote, backslash, dollar or exclamation mark inside: every login shell takes it as it is.

-IBS: a json.py in the account's home or a PYTHONPATH is not ours to import, no .pyc is written, and no site is read.
"""

_LOADER = """
import importlib.abc, importlib.machinery, json, sys
class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, sources):
        self.sources = sources
    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == {package!r})
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(self.sources[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle(json.loads({sources!r})))
"""

_START = """
from {package} import {entry}
{entry}.main(json.loads({options!r}))
"""


def package_probe(options: Dict[str, object]) -> Tuple[str, bytes]:
    """(command, payload) that start the probe; options are those of main.Probe."""
    return _package("main", options)


def package_runner(options: Dict[str, object]) -> Tuple[str, bytes]:
    """(command, payload) that start the login node's runner; options: nonce."""
    return _package("runner", options)


def _package(entry: str, options: Dict[str, object]) -> Tuple[str, bytes]:
    head, packer = _begun(entry)
    packer = packer.copy()
    start = _START.format(package=PACKAGE, entry=entry, options=json.dumps(options))
    payload = head + packer.compress(start.encode("utf-8")) + packer.flush()
    return _COMMAND.format(size=len(payload)), payload


@functools.lru_cache(maxsize=2)
def _begun(entry: str) -> Tuple[bytes, Any]:
    """What all payloads begin with, and the packer in that state: packing it anew for each host costs 40 ms."""
    packer = zlib.compressobj(9)
    program = _LOADER.format(package=PACKAGE, sources=_sources(entry))
    return packer.compress(program.encode("utf-8")) + packer.flush(zlib.Z_SYNC_FLUSH), packer


@functools.lru_cache(maxsize=2)
def _sources(entry: str) -> str:
    """Module name -> source without docstrings and comments, as JSON; pynvml goes with the probe alone."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sources = {PACKAGE: ""}
    names = ("wire", "runner") if entry == "runner" else [name for name in MODULES if name != "runner"]
    for name in names:
        sources[PACKAGE + "." + name] = bare(_read(os.path.join(folder, name + ".py")))
    if entry == "main":
        spec = importlib.util.find_spec("pynvml")
        if spec is None or spec.origin is None:
            raise ImportError("pynvml is not installed: pip install nvidia-ml-py")
        sources["pynvml"] = bare(_read(spec.origin))
    return json.dumps(sources)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as source:
        return source.read()


def bare(source: str) -> str:
    """The same program without what only people read."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            node.body[0] = ast.copy_location(ast.Pass(), node.body[0])
    return ast.unparse(tree)
