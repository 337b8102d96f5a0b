"""A process that has imported frameworks, of which each program of a test is a fork.

The imports are most of what a short program costs. Nothing was computed before the fork, so that a
program starts the threads and devices of its frameworks itself, as its own environment says.
"""

import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

# Others start threads or devices when they are imported. CuPy does, but not on the simulated CUDA.
MODULES = ("torch", "jax", "tensorflow", *["cupy"] * bool(os.environ.get("SIMULATED_CUDA")))
# These are read when modules are imported.
EARLY = ("JAX_PLATFORMS", "KERAS_BACKEND", "SIMULATED_CUDA_MEMORY")
PROCESSES = []


def can_fork(modules) -> bool:
    """Whether a program may be the fork of a process with these modules."""
    return sys.platform == "linux" and bool(modules) and {*modules} <= {*MODULES}


def run(code: str, arguments, env: dict[str, str], timeout: float, modules):
    """Run a program in a fork of a process that has imported modules; as `subprocess.run`."""
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with theirs:
            early = tuple((name, env[name]) for name in EARLY if name in env)
            started = _started(tuple(name for name in MODULES if name in modules), early)
            socket.send_fds(started, [b"."], [theirs.fileno(), out.fileno(), err.fileno()])
        ours.settimeout(timeout)
        request = {"code": code, "arguments": arguments, "env": env, "folder": os.getcwd()}
        ours.sendall(json.dumps(request).encode() + b"\n")
        with ours.makefile() as answers:
            process = int(answers.readline())
            try:
                status = int(answers.readline())
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise
        out.seek(0), err.seek(0)
        texts = (file.read().decode(errors="replace") for file in (out, err))
        return subprocess.CompletedProcess(["fork", *arguments], status, *texts)


# Of each kind of program there are several in a file. A process takes up to 600 MB.
@functools.lru_cache(maxsize=3)
def _started(modules: tuple[str, ...], early: tuple[tuple[str, str], ...]) -> socket.socket:
    """Start a process that imports modules. It ends when nobody has its socket any more."""
    import bridges

    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", "import fork_server; exec(fork_server.serve())"]
    # Files of tests import these.
    beside = [name for name in ("pytest", "hypothesis") if name in sys.modules]
    command += [str(theirs.fileno()), *beside, *modules]
    with theirs:
        env = {**bridges.environment(), **dict(early)}
        PROCESSES.append(subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()]))
    return ours


def serve() -> str:
    """Import the modules and wait. A fork returns from here, with the code that it has to run."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    number, *modules = sys.argv[1:]
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    asked = socket.socket(fileno=int(number))
    while True:
        said, descriptors, *_ = socket.recv_fds(asked, 1, 3)
        if not said:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # This process waits for the one with the program.
    client, out, err = descriptors
    asking = socket.socket(fileno=client)
    request = json.loads(asking.makefile().readline())
    if process := os.fork():
        asking.sendall(f"{process}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        asking.sendall(f"{status}\n".encode())
        os._exit(0)
    asking.close()
    os.dup2(out, 1), os.dup2(err, 2)
    os.close(out), os.close(err)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    sys.argv[1:] = request["arguments"]
    return request["code"]
