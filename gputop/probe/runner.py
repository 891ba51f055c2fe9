"""The login node's runner: framed requests in, argv lists started without a shell under a time limit, results out.

A request is a frame as the probe's: {"id", "argv", "timeout"}. When standard input ends, commands that already run are
left to their own time limit, since an action must not be cut short; no new one is started.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading

from . import wire

DROPPED = ("SLURM_CLUSTERS", "SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML")
DROPPED_PREFIXES = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_")
FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/slurm/bin", "/usr/local/slurm/bin", "/usr/sbin", "/sbin")
AT_ONCE = 8
END_SECONDS = 2
"""How long a killed command may take to be gone."""


def environment():
    """Slurm's own environment: nothing of the user's that changes what its commands print."""
    kept = {}
    for name, value in os.environ.items():
        if name not in DROPPED and not name.startswith(DROPPED_PREFIXES):
            kept[name] = value
    path = kept.get("PATH", "").split(":")
    kept["PATH"] = ":".join([folder for folder in path if folder] + [f for f in FOLDERS if f not in path])
    kept["SLURM_TIME_FORMAT"] = "%s"
    kept["LC_ALL"] = "C.UTF-8"
    return kept


def read_request(source):
    """The next request, or None at the end of input; noise cannot come this way."""
    header = source.readline(200)
    if not header:
        return None
    size = int(header.rsplit(b" ", 1)[1])
    payload = source.read(size)
    source.read(1)
    return json.loads(payload.decode()) if len(payload) == size else None


def execute(argv, timeout):
    """{"status", "stdout", "stderr", "timed_out"}; status 127: it cannot be started."""
    try:
        process = subprocess.Popen(
            [word.encode("utf-8") for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return {"status": 127, "stdout": "", "stderr": _pack(str(error).encode()), "timed_out": False}
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        return {"status": -9, "stdout": "", "stderr": "", "timed_out": True}
    return {"status": process.returncode, "stdout": _pack(out), "stderr": _pack(err), "timed_out": False}


def end(process):
    """Ends a command with all it started, as far as this account may: a sudo's child may live on and hold the pipes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.stdout.close()
        process.stderr.close()


def _pack(data):
    return base64.b64encode(data).decode("ascii")


def main(options):
    """Serves requests until standard input ends."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    nonce = options["nonce"]
    lock = threading.Lock()
    slots = threading.BoundedSemaphore(AT_ONCE)
    source = os.fdopen(0, "rb")

    def answer(message):
        with lock:
            try:
                wire.write_all(1, wire.encode(message, nonce))
            except OSError:
                pass

    def work(request):
        try:
            answer(dict(execute(request["argv"], request["timeout"]), id=request["id"]))
        finally:
            slots.release()

    answer({"id": 0, "status": 0, "stdout": "", "stderr": "", "timed_out": False})
    for request in iter(lambda: read_request(source), None):
        slots.acquire()
        thread = threading.Thread(target=work, args=(request,))
        thread.daemon = True
        thread.start()
    for _ in range(AT_ONCE):
        slots.acquire()
    sys.stdout = None
    os._exit(0)
