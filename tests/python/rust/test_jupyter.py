"""Rust functions in a Jupyter kernel, which is interrupted."""

import time

import bridges
import pytest

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")


@pytest.fixture(scope="module")
def kernel():
    """The client and the manager of a kernel that runs on this interpreter."""
    manager = jupyter_client.KernelManager()
    manager.start_kernel(env=bridges.environment())
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        yield client, manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def replied(client, cell: str, meanwhile=None) -> tuple[dict, str]:
    """The reply to a cell, and what it printed. `meanwhile` is called once that has "ready"."""
    sent = client.execute(cell)
    text = ""
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != sent:
            continue
        content = message["content"]
        text += content.get("text", "")
        if meanwhile and "ready" in text:
            meanwhile()
            meanwhile = None
        if content.get("execution_state") == "idle":
            break
    while True:
        reply = client.get_shell_msg(timeout=120)
        if reply["parent_header"].get("msg_id") == sent:
            return reply["content"], text


@pytest.mark.parametrize("in_threads", [False, True])
@pytest.mark.parametrize("function", ["poll_detached", "poll_attached"])
def test_the_stop_button_ends_a_function_that_polls(ext, kernel, function, in_threads):
    client, manager = kernel
    load = f"import bridges, numpy as np; ext = bridges.module({ext.__file__!r})"
    reply, text = replied(client, f"{load}; x = np.ones((64, 64), 'f4')")
    assert reply["status"] == "ok", text

    def stop():
        # The call comes after the text. An interrupt before it would end the cell as well.
        time.sleep(0.3)
        manager.interrupt_kernel()

    call = f"ext.{function}(x, 'raise', in_threads={in_threads})"
    reply, text = replied(client, f"print('ready', flush=True); {call}; print('returned')", stop)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt"), reply
    assert "returned" not in text
    # The kernel goes on with what it has, and nothing is claimed.
    reply, text = replied(client, "ext.touch(x.copy(), x); print(ext.total(x))")
    assert (reply["status"], text) == ("ok", "8192.0\n"), reply
