# SPDX-License-Identifier: Apache-2.0
"""A program in the compiler's place. It parses its input as XLA does, writes a file
of a NEFF's form that depends on the input, and fails as the environment asks:

STAND_IN         ok (default), fail, internal, unknown, argument, memory, disk, kill,
                 hang, garbage, truncated, orphan
STAND_IN_LOG     gets a line for each compilation: format, bytes of input, target
STAND_IN_VERSION the version that it tells; "none": it tells none
STAND_IN_ACCEPTS "hlo", "stablehlo" or both with a comma
STAND_IN_SECONDS that a compilation takes
STAND_IN_ONLY    what STAND_IN asks happens only to programs with this text in them
"""

import hashlib
import os
import signal
import struct
import subprocess
import sys
import time

ERRORS = {
    "fail": "ERROR: [NCC_EVRF013] TopK does not support integer inputs",
    "internal": "[INTERNAL_ERROR] [NCC_ISMP902] assertion in shrink",
    "unknown": "ERROR: [NCC_EXYZ123] something new",
    "argument": "ERROR: [NCC_EARG002] unrecognized arguments: --nonsense",
    "memory": "std::bad_alloc",
    "disk": "OSError: [Errno 28] No space left on device",
}


def main() -> None:
    then = os.environ.get("STAND_IN", "ok")
    if sys.argv[1:] == ["--version"]:
        version = os.environ.get("STAND_IN_VERSION", "2.28.7631.0+a1b2c3d4")
        if version == "none":
            sys.exit("usage: compile ...")
        print(f"NeuronX Compiler version {version}\n\nPython version {sys.version}")
        return
    arguments = sys.argv[1:]
    assert arguments[0] == "compile" and arguments[2:4] == ["--framework", "XLA"]
    option = dict(zip(arguments[2::2], arguments[3::2], strict=False))
    assert option["--target"] in ("trn2", "trn3") and option["--lnc"] in ("1", "2")
    with open(arguments[1], "rb") as file:
        data = file.read()
    form = "hlo" if arguments[1].endswith(".pb") else "stablehlo"
    if log := os.environ.get("STAND_IN_LOG"):
        with open(log, "a") as file:
            file.write(f"{form} {len(data)} {option['--target']} {option['--lnc']}\n")
    if form not in os.environ.get("STAND_IN_ACCEPTS", "hlo,stablehlo").split(","):
        sys.exit(f"error: cannot read {arguments[1]}")
    text = parse(form, data)
    time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
    if os.environ.get("STAND_IN_ONLY", "") not in text:
        then = "ok"
    if then in ERRORS:
        print("a line that is no error")
        sys.exit(ERRORS[then])
    if then == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "hang":
        time.sleep(600)
    if then == "orphan":
        subprocess.Popen(["sleep", "547"])
        time.sleep(600)
    digest = hashlib.sha256(text.encode()).hexdigest()  # protos differ in numbers
    body = b"standing in for " + digest.encode()
    header = struct.pack("<QQQ", 2, 1024, len(body)).ljust(1024, b"\0")
    neff = header + body
    if then == "garbage":
        neff = b"half"
    if then == "truncated":
        neff = neff[:-1]
    with open(option["--output"], "wb") as file:
        file.write(neff)


def parse(form: str, data: bytes) -> str:
    """The program's text, by XLA's own readers; an error if there is none."""
    if form == "hlo":
        from jaxlib._hlo import XlaComputation

        return XlaComputation(data).as_hlo_text()
    from jaxlib._jax.mlir import mlir_module_to_xla_computation

    text = data.decode()
    mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    return text


if __name__ == "__main__":
    main()
