"""Bytes per round over the links to RPC servers, beside what the loopback interface counts.

    python -m benchmarks.rpc_traffic             # the demo pair
    python -m benchmarks.rpc_traffic --smallest  # a tiny one

Target and draft are on two RPC servers, one each, and decode in a network namespace of their own,
where nobody else uses the interface. What ``monitor.links`` counts is what the connections carry;
the interface adds a header to every packet.
"""

import argparse
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.monitor.links import Links
from spectui.options.drafters import DraftSimple
from spectui.options.setup import Devices, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from tests.support.models import Tiny, write_tiny
from tests.support.rpc import rpc_build

TARGET = 0.05
_HEADER_BYTES = 52
"""IP, and TCP with timestamps."""
_UP, _SET_FLAGS = 1, 0x8914
_OWN_NETWORK = "--own-network"
_PROMPT = "Tell the story of a ship that was lost at sea, and of the one who found it."


def main() -> None:
    """Measure in a namespace of its own and write ``results/rpc_traffic.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--smallest", action="store_true", help="a tiny pair")
    parser.add_argument(_OWN_NETWORK, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.own_network:
        command = [sys.executable, "-m", "benchmarks.rpc_traffic", *sys.argv[1:], _OWN_NETWORK]
        own_network = ["unshare", "--net", "--map-root-user", *command]
        sys.exit(subprocess.run(own_network, check=False).returncode)
    sys.argv.remove(_OWN_NETWORK)
    bring_up("lo")
    build = rpc_build()
    if build is None:
        parser.error("build the servers first: python tools/build_llama_server.py rpc")
    os.environ |= build.environment
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rpc = tuple(stack.enter_context(build.serving()).endpoint for _ in range(2))
        devices = Devices(rpc=rpc, names=("RPC0",)), Devices(rpc=rpc, names=("RPC1",))
        found = measure(
            pair(folder, devices, smallest=arguments.smallest), rpc, arguments.n_predict
        )
    write_results("rpc_traffic", found)


def bring_up(interface: str) -> None:
    """Bring up an interface of this namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", interface.encode(), _UP))


def pair(
    folder: Path, devices: tuple[Devices, Devices], *, smallest: bool
) -> tuple[ModelOptions, ModelOptions]:
    """Target and draft, each on its device."""
    if not smallest:
        (target, _), (_, draft) = demo_pair(devices=devices[0]), demo_pair(devices=devices[1])
        return target, draft
    paths = folder / "target.gguf", folder / "draft.gguf"
    write_tiny(Tiny(), paths[0])
    write_tiny(Tiny(noise=0.02), paths[1])
    return (
        ModelOptions(path=paths[0], devices=devices[0]),
        ModelOptions(path=paths[1], devices=devices[1]),
    )


def measure(
    models: tuple[ModelOptions, ModelOptions], rpc: tuple[str, ...], n_predict: int
) -> dict[str, object]:
    """Count one generation, without loading and without the prompt's first time."""
    target, draft = models
    with Engine() as engine:
        engine.load_target(target, CONTEXT, max_draft=4)
        engine.load_draft(draft)
        prompt = engine.tokenize(Tokenize(text=_PROMPT))
        command = Generate(
            prompt=prompt,
            n_predict=n_predict,
            sampling=SamplingConfig(temp=0.0, ignore_eos=True),
            speculation=Speculation(DraftSimple(draft_max=4)),
            reuse_prompt=True,
        )
        engine.generate(command)
        links = Links(rpc)
        before, n_bytes, n_packets = links.read(0.0), *interface()
        done = engine.generate(command)
        after, then_bytes, then_packets = links.read(1.0), *interface()
    by_link = [
        {
            "sent_bytes": now.sent_bytes - was.sent_bytes,
            "received_bytes": now.received_bytes - was.received_bytes,
        }
        for was, now in zip(before, after, strict=True)
    ]
    carried = sum(sum(link.values()) for link in by_link)
    counted, n_packets = then_bytes - n_bytes, then_packets - n_packets
    payload = counted - _HEADER_BYTES * n_packets
    n_rounds = done.counters.n_rounds
    return {
        "n_rounds": n_rounds,
        "links": by_link,
        "bytes_per_round": carried / n_rounds,
        "interface_bytes_per_round": counted / n_rounds,
        "interface_payload_bytes_per_round": payload / n_rounds,
        "over_interface": carried / counted,
        "over_payload": carried / payload,
        "target": TARGET,
        "met": abs(carried / counted - 1) <= TARGET,
    }


def interface() -> tuple[int, int]:
    """Bytes and packets that the loopback interface has received: all that was sent on it."""
    (line,) = (one for one in Path("/proc/net/dev").read_text().splitlines() if "lo:" in one)
    n_bytes, n_packets = line.partition(":")[2].split()[:2]
    return int(n_bytes), int(n_packets)


if __name__ == "__main__":
    main()
