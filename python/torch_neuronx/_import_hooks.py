# SPDX-License-Identifier: Apache-2.0
"""Runs a function when a module is imported, without importing it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_actions: dict[str, list[Callable[[ModuleType], None]]] = {}


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Calls ``action(module)`` once: now if ``name`` is imported, else right
    after its import."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action(module)
        return
    _actions.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in _actions:
            return None
        actions = _actions.pop(fullname)
        spec = find_spec(fullname)  # this finder no longer answers for it
        if spec is None or spec.loader is None:
            _actions[fullname] = actions
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            for action in actions:
                action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_finder = _Finder()
