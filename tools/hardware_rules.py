# SPDX-License-Identifier: Apache-2.0
"""The table of rules in docs/hardware.md, from the rules in csrc/ir/hardware_rules.cpp.

python tools/hardware_rules.py            print it
python tools/hardware_rules.py --write    put it in the document
"""

import re
import sys
from pathlib import Path

from torch_neuronx import _C

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "hardware.md"
PAGE = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/compiler/error-codes/{}.html"
# The compiler reports it, its documentation does not list it.
UNLISTED = {"NCC_EVRF029"}
BEGIN, END = "<!-- rules -->\n", "<!-- end of rules -->\n"


def link(code: str) -> str:
    known = code.startswith("NCC_") and code not in UNLISTED
    return f"[{code}]({PAGE.format(code.removeprefix('NCC_'))})" if known else code


def row(rule: dict) -> str:
    codes = ", ".join(link(code) for code in rule["codes"].split(", "))
    source = rule["source"]
    where = codes if source == "compiler error codes" else f"{codes}; {source}"
    kind = "rewritten" if rule["rewritten"] else "refused"
    cells = (
        f"`{rule['name']}`",
        rule["restriction"],
        rule["targets"],
        f"{kind}: {rule['remedy']}",
        where,
    )
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    head = "| Rule | The compiler does not take | On | What happens | Source |\n"
    return head + "|---|---|---|---|---|\n" + "".join(map(row, _C.hardware_rules()))


def main() -> None:
    if "--write" not in sys.argv[1:]:
        print(table(), end="")
        return
    text = DOCUMENT.read_text()
    pattern = re.compile(f"{BEGIN}.*{END}", re.DOTALL)
    DOCUMENT.write_text(pattern.sub(lambda _: BEGIN + table() + END, text))


if __name__ == "__main__":
    main()
