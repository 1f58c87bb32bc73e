# SPDX-License-Identifier: Apache-2.0
"""``torch-neuronx``: what this machine has, what is wrong with it, what the compile
cache holds, and compiling ahead of time.

A package of its own, as what needs no torch should not wait for its import."""

import argparse

from rich.console import Console

from torch_neuronx_cli import cache_commands, compile_command

console = Console(highlight=False)


def main(arguments: list[str] | None = None) -> int:
    """The command line; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="torch-neuronx", description=(__doc__ or "").partition("\n\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="devices, versions and settings")
    commands.add_parser("doctor", help="check that the device works, and why not")
    cache_commands.add_parser(commands)
    compile_command.add_parser(commands)
    parsed = parser.parse_args(arguments)
    if parsed.command == "cache":
        return cache_commands.run(parsed, console)
    if parsed.command == "compile":
        return compile_command.run(parsed, console)
    from torch_neuronx import cli

    return {"info": cli.info, "doctor": cli.doctor}[parsed.command]()
