# SPDX-License-Identifier: Apache-2.0
"""Functions that torch.compile has captured, as programs: one for each combination
of argument shapes and layouts that they are called with."""

import contextlib
import itertools
import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sympy
import torch
from torch._dynamo.utils import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from torch_neuronx import _C, control_flow
from torch_neuronx.lowering import (
    DEVICE,
    Emitter,
    Number,
    Operand,
    Undecomposable,
    run_apart,
)

aten = torch.ops.aten

# Their arguments describe the memory behind their first.
_BY_STORAGE = {
    aten.as_strided.default,
    aten.as_strided_copy.default,
    aten.as_strided_scatter.default,
}

_numbers = itertools.count()


class GraphError(RuntimeError):
    """A captured graph has no program. Names the operator and the user's line."""


@dataclass
class Counts:
    """What ``get_dynamo_metrics`` reports."""

    graphs: int = 0
    programs: int = 0
    lowering_seconds: float = 0.0
    fallbacks: int = 0
    cpu_graphs: int = 0


counts = Counts()


_told: set[str] = set()
_lock = threading.Lock()


def warn_once(text: str) -> None:
    """Warns, once for each text."""
    with _lock:
        if text in _told:
            return
        _told.add(text)
    warnings.warn(text, stacklevel=2)


def boxed(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """``function`` of a list, which it empties."""

    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return function(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@dataclass(frozen=True)
class Settings:
    model_name: str = ""
    kind: str = "forward"
    # Run the graph operator by operator if it cannot be compiled.
    fallback: bool = False
    # Sizes that are padded (padding.py): bucketing.Bucket by symbol; and the axes of
    # values that the forward graph saves, by name.
    buckets: dict[Any, Any] = field(default_factory=dict)
    axes: dict[str, Any] = field(default_factory=dict)


class Shapes:
    """The numbers that a call gives a graph's symbols."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self.symbols: dict[Any, int] = {}
        self.numbers: dict[Any, int] = {}
        self.tensors: dict[FakeTensor, FakeTensor] = {}

    def bind(self, expected: int | torch.SymInt, number: int) -> None:
        if isinstance(expected, torch.SymInt):
            expression = expected.node.expr
            if expression.is_Symbol:
                self.symbols.setdefault(expression, sympy.Integer(number))
            else:
                self.numbers.setdefault(expression, number)

    def number(self, x: Any) -> Any:
        """The value of a symbolic or plain number."""
        if not isinstance(x, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return x
        expression = x.node.expr
        if expression not in self.numbers:
            value = expression.xreplace(self.symbols)
            if value.free_symbols:
                raise Undecomposable(
                    f"the size {expression} depends on the data of a tensor"
                )
            python = {torch.SymInt: int, torch.SymBool: bool, torch.SymFloat: float}
            self.numbers[expression] = python[type(x)](value)
        return self.numbers[expression]

    def tensor(self, fake: FakeTensor) -> FakeTensor:
        if fake.fake_mode is self.mode:
            return fake
        if fake not in self.tensors:
            with self.mode:
                self.tensors[fake] = torch.empty_strided(
                    [self.number(n) for n in fake.shape],
                    [self.number(n) for n in fake.stride()],
                    dtype=fake.dtype,
                    device=fake.device,
                )
        return self.tensors[fake]

    def concrete(self, result: Any) -> Any:
        return tree_map(
            lambda x: self.tensor(x) if isinstance(x, FakeTensor) else self.number(x),
            result,
        )


class GraphEmitter(Emitter):
    """Emits a captured graph, whose last operators write to arguments."""

    def __init__(self, builder: Any, shapes: Shapes) -> None:
        super().__init__(builder, shapes.mode, whole=True)
        self.shapes = shapes
        self.written: dict[Any, Operand] = {}
        self.extents: dict[int, int] = {}  # of strided arguments
        self.current: Node | None = None

    def region(self, builder: Any) -> Emitter:
        return GraphEmitter(builder, self.shapes)

    def meta(self, node: Node) -> Any:
        return self.shapes.concrete(node.meta.get("val"))

    def node(self, node: Node, args: Any, kwargs: dict[str, Any], depth: int) -> Any:
        self.current = node
        value = node.meta.get("val")
        if isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.shapes.number(value)
        args, kwargs = tree_map(self.shapes.number, (args, kwargs))
        if node.target is aten.copy_.default:
            return self.write(*args[:2])
        if node.target in _BY_STORAGE:
            args = self.relative(node, args)
        return super().node(node, args, kwargs, depth)

    def relative(self, node: Node, args: Any) -> Any:
        """``as_strided`` counts from the start of a storage; a program has only the
        elements of the tensor."""
        fake = node.args[0].meta["val"]  # type: ignore[union-attr]
        number = self.shapes.number
        names = [argument.name for argument in node.target._schema.arguments]
        at = names.index("storage_offset")
        at_sizes, at_strides = names.index("size"), names.index("stride")
        start = number(fake.storage_offset())
        given = args[at] if len(args) > at else None
        offset = start if given is None else given
        sizes, strides = args[at_sizes], args[at_strides]
        last = offset + sum(
            (n - 1) * stride for n, stride in zip(sizes, strides, strict=True)
        )
        whole = self.shapes.tensor(fake)
        inside = start <= offset and last < start + whole.numel()
        if 0 not in sizes and not (whole.is_contiguous() and inside):
            raise Undecomposable("it reads memory outside the tensor")
        args = list(args) + [None] * (at + 1 - len(args))
        args[at] = offset - start
        return args

    def write(self, target: Operand, value: Any) -> Operand:
        """An argument overwritten by the graph."""
        if value.fake.dtype != target.fake.dtype or value.fake.shape != (
            target.fake.shape
        ):
            args = [target, value, False]
            value = self.lower("aten::copy", args, target.fake)
        self.written[target] = value
        return target


@dataclass
class Variant:
    """What ``_C.Graph.add`` needs besides the program."""

    inputs: list[tuple] = field(default_factory=list)
    outputs: list[tuple] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    # Of the program's results that overwrite nothing.
    ids: list[int] = field(default_factory=list)


class Graph:
    """A captured graph. Calling it with the list of its arguments, which is emptied,
    gives the list of its results.

    Args:
        module: in ATen, functional but for ``copy_`` into placeholders.
        settings: names and policies.
    """

    def __init__(self, module: GraphModule, settings: Settings) -> None:
        self.module = module
        self.settings = settings
        self.number = next(_numbers)
        self.native = _C.Graph()
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.outputs: list[Any] = list(module.graph.output_node().args[0])
        self.copied = {
            i for i, node in enumerate(self.placeholders) if _computes_on_cpu(node)
        }
        self.written = {
            i
            for node in module.graph.nodes
            if node.target is aten.copy_.default
            for i, placeholder in enumerate(self.placeholders)
            if node.args[0] is placeholder
        }
        counts.graphs += 1

    @property
    def name(self) -> str:
        return f"{self.settings.model_name or 'graph'} {self.number}"

    @property
    def is_dynamic(self) -> bool:
        return any(
            isinstance(n, (torch.SymInt, torch.SymFloat, torch.SymBool))
            for node in self.module.graph.nodes
            for leaf in tree_leaves(node.meta.get("val"))
            for n in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,))
        )

    def compile(self, args: list[Any]) -> Callable[[list[Any]], list[Any]]:
        """The function to call. ``args`` are examples, possibly fake."""
        try:
            self.check()
            if not self.is_dynamic and not self.copied:
                self.specialize(args)
        except GraphError as error:
            return self.one_by_one(error)
        native = self.native

        def call(args: list[Any]) -> list[Any]:
            results = native(args)
            if results is None:
                try:
                    self.specialize(args)
                except GraphError as error:
                    return self.one_by_one(error)(args)
                results = native(args)
            return results

        function = self.with_copies(call) if self.moves_data else call
        function._boxed_call = True  # type: ignore[attr-defined]
        return function

    def one_by_one(self, error: GraphError) -> Callable[[list[Any]], list[Any]]:
        """The graph operator by operator, if that is wanted; else raises."""
        if not self.settings.fallback:
            raise error
        counts.fallbacks += 1
        warn_once(f"{error}; the graph runs operator by operator")
        return boxed(self.module.forward)

    def check(self) -> None:
        """Refuses at once what no arguments can give a program."""
        for node in self.module.graph.nodes:
            target = node.target
            if isinstance(target, HigherOrderOperator) and not (
                control_flow.is_supported(target)
            ):
                reason = control_flow.why_not(target, node.args)
                raise GraphError(self.explain(node, reason))

    @property
    def moves_data(self) -> bool:
        return bool(self.copied) or any(_is_cpu(node) for node in self.outputs)

    def with_copies(
        self, call: Callable[[list[Any]], list[Any]]
    ) -> Callable[[list[Any]], list[Any]]:
        """``call`` for graphs that also compute on the CPU's tensors: those are
        copied to the device and, where the graph writes or returns them, back."""
        written = self.written & self.copied
        to_cpu = [i for i, node in enumerate(self.outputs) if _is_cpu(node)]

        def function(args: list[Any]) -> list[Any]:
            originals = {i: args[i] for i in self.copied}
            for i, tensor in originals.items():
                args[i] = tensor.to(DEVICE)
            copies = {i: args[i] for i in written}
            results = call(args)
            for i, copy in copies.items():
                originals[i].copy_(copy)
            for i in to_cpu:
                results[i] = results[i].cpu()
            return results

        return function

    def specialize(self, args: list[Any]) -> None:
        """Adds the program for arguments of these shapes and layouts."""
        start = time.perf_counter()
        # Arguments may belong to modes of their own: types are all that is used.
        run_apart(lambda: self._specialize(args), name=f"lower {self.name}")
        counts.programs += 1
        counts.lowering_seconds += time.perf_counter() - start

    def _specialize(self, args: list[Any]) -> None:
        mode = detect_fake_mode(tuple(n.meta.get("val") for n in self.placeholders))
        if self.is_dynamic or mode is None:
            mode = FakeTensorMode(allow_fallback_kernels=False)
        builder = _C.GraphBuilder(self.name)
        emitter = self.emitter(builder, Shapes(mode))
        variant = Variant()
        try:
            values = self.arguments(emitter, variant, args)
            results = emitter.emit(self.module, values)
            ids, aliases = self.results(emitter, variant, args, values, results)
        except (Undecomposable, _C.Unsupported) as error:
            raise GraphError(self.explain(emitter.current, error)) from error
        captured = builder.build(ids, aliases)
        program, passes = captured.optimized()
        stages = program.stages(self.dying(variant, program), _stages())
        self.preserve(captured, program, passes, stages)
        self.native.add(
            self.name,
            stages,
            builder.scalar_count,
            builder.draws,
            variant.inputs,
            variant.outputs,
            variant.tensors,
            variant.numbers,
            variant.results,
            self.device_index(),
        )

    def emitter(self, builder: Any, shapes: Shapes) -> GraphEmitter:
        return GraphEmitter(builder, shapes)

    # Arguments

    def bind(self, shapes: Shapes, args: list[Any]) -> None:
        for node, arg in zip(self.placeholders, args, strict=True):
            expected = node.meta.get("val")
            if isinstance(expected, torch.Tensor):
                for n, number in zip(expected.shape, arg.shape, strict=True):
                    shapes.bind(n, number)
            elif isinstance(arg, int):
                shapes.bind(expected, arg)

    def arguments(
        self, emitter: GraphEmitter, variant: Variant, args: list[Any]
    ) -> list[Any]:
        self.bind(emitter.shapes, args)
        return [
            self.argument(emitter, variant, i, node, arg)
            for i, (node, arg) in enumerate(zip(self.placeholders, args, strict=True))
        ]

    def argument(
        self, emitter: GraphEmitter, variant: Variant, i: int, node: Node, arg: Any
    ) -> Any:
        builder = emitter.builder
        if isinstance(arg, torch.Tensor):
            if not node.users:
                variant.inputs.append(("ignored",))
                return None
            fake = emitter.shapes.tensor(node.meta["val"])
            if arg.device.type == "cpu" and i not in self.copied:
                variant.inputs.append(("number", arg.dtype))
                variant.numbers.append(i)
                number = builder.number_parameter(arg.dtype.is_floating_point)
                return Number(number, fake)
            sizes, strides = list(arg.shape), list(arg.stride())
            variant.inputs.append(("tensor", arg.dtype, sizes, strides))
            if arg.numel() == 0:
                return Operand(builder.constant(arg.dtype, sizes, b""), fake)
            variant.tensors.append(i)
            if arg.is_contiguous():
                return Operand(builder.tensor_parameter(arg.dtype, sizes), fake)
            extent = builder.tensor_parameter(arg.dtype, [_extent(arg)])
            view = builder.as_strided(extent, sizes, strides)
            emitter.extents[view] = extent
            return Operand(view, fake)
        if isinstance(arg, (bool, int)):
            variant.inputs.append(("integer", int(arg)))
            return arg
        if isinstance(arg, float):
            variant.inputs.append(("number", torch.float64))
            variant.numbers.append(i)
            fake = torch.empty((), dtype=torch.float64, device="meta")
            return Number(builder.number_parameter(True), fake)
        variant.inputs.append(("ignored",))
        return i if isinstance(arg, torch.Generator) else arg

    # Results

    def results(
        self,
        emitter: GraphEmitter,
        variant: Variant,
        args: list[Any],
        values: list[Any],
        results: Any,
    ) -> tuple[list[int], list[int]]:
        """The program's results and what each overwrites: first arguments."""
        builder = emitter.builder
        ids: list[int] = []
        aliases: list[int] = []
        position = {value: i for i, value in enumerate(values) if _is_operand(value)}
        for target, value in emitter.written.items():
            i = position[target]
            if args[i].numel() == 0:
                continue
            aliases.append(variant.tensors.index(i))
            if args[i].is_contiguous():
                ids.append(value.id)
            else:
                extent = emitter.extents[target.id]
                strides = list(args[i].stride())
                ids.append(builder.as_strided_scatter(extent, value.id, strides))
        made: dict[Any, int] = {}
        for k, (node, value) in enumerate(zip(self.outputs, results, strict=True)):
            self.output(k, node, value, emitter, variant, position, args, made)
        return ids + variant.ids, aliases + [-1] * len(variant.ids)

    def output(
        self,
        k: int,
        node: Any,
        value: Any,
        emitter: GraphEmitter,
        variant: Variant,
        position: dict[Any, int],
        args: list[Any],
        made: dict[Any, int],
    ) -> None:
        """Adds the graph's result ``k``; ``made`` holds earlier ones by memory."""
        builder, shapes = emitter.builder, emitter.shapes
        if value is None:
            variant.outputs.append(("none",))
        elif not isinstance(value, Operand):
            variant.outputs.append(("integer", int(shapes.number(value))))
        elif value in position:
            variant.outputs.append(("argument", position[value]))
        elif view := self.view(node, made, shapes) or self.argument_view(
            node, args, emitter
        ):
            variant.outputs.append(view)
        else:
            fake = shapes.tensor(node.meta["val"])
            sizes, strides = list(fake.shape), list(fake.stride())
            dense = is_dense(fake)
            if not dense or 0 in sizes:
                strides = list(torch.empty(sizes, device="meta").stride())
            variant.outputs.append(("new", fake.dtype, sizes, strides))
            made.setdefault(_storage(node), k)
            if 0 in sizes:
                return
            variant.results.append(k)
            contiguous = fake.is_contiguous() or not dense
            variant.ids.append(
                value.id if contiguous else builder.to_strided(value.id, strides)
            )

    def argument_view(
        self, node: Node, args: list[Any], emitter: GraphEmitter
    ) -> tuple | None:
        """An output that shows the memory of an argument."""
        number = emitter.shapes.number
        fake = node.meta["val"]
        for i, placeholder in enumerate(self.placeholders):
            base = placeholder.meta.get("val")
            if not isinstance(base, torch.Tensor) or _is_cpu(placeholder):
                continue
            if _storage(placeholder) != _storage(node) or base.dtype != fake.dtype:
                continue
            if i in self.written:
                return None
            if [number(n) for n in base.stride()] != list(args[i].stride()):
                return None
            sizes = [number(n) for n in fake.shape]
            strides = [number(n) for n in fake.stride()]
            shift = number(fake.storage_offset()) - number(base.storage_offset())
            return ("argument view", i, sizes, strides, shift)
        return None

    def view(self, node: Node, made: dict[Any, int], shapes: Shapes) -> tuple | None:
        """An output that shows the memory of an earlier one."""
        if _storage(node) not in made:
            return None
        k = made[_storage(node)]
        base, fake = self.outputs[k].meta["val"], node.meta["val"]
        whole = shapes.tensor(base)
        if not is_dense(whole) or (
            shapes.number(base.storage_offset()) != 0
            or shapes.number(base.untyped_storage().nbytes())
            != whole.numel() * whole.element_size()
            or base.dtype != fake.dtype
        ):
            return None
        sizes = [shapes.number(n) for n in fake.shape]
        strides = [shapes.number(n) for n in fake.stride()]
        return ("view", k, sizes, strides, shapes.number(fake.storage_offset()))

    def dying(self, variant: Variant, program: Any) -> list[bool]:
        """For each parameter, whether the call is likely to be its last use: of what
        the forward graph saved for the backward one, except for its own arguments.
        Launches free what nobody else holds, so a wrong guess costs memory only."""
        dying = [False] * len(program.inputs)
        if self.settings.kind == "backward":
            for k, i in enumerate(variant.tensors):
                dying[k] = not self.placeholders[i].name.startswith("primals")
        return dying

    # Names

    def device_index(self) -> int:
        for node in self.module.graph.nodes:
            for leaf in tree_leaves(node.meta.get("val")):
                if isinstance(leaf, torch.Tensor) and leaf.device.type == "neuron":
                    return leaf.device.index or 0
        return 0

    def explain(self, node: Node | None, error: object) -> str:
        operator = ""
        if node is not None and isinstance(node.target, OpOverload):
            operator = f"[{node.target.name()}] "
        return (
            f"{operator}cannot be compiled for neuron: {error}{call_site(node)} "
            "(TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=0 or "
            "options={'fallback_execution': True} runs such graphs operator by "
            "operator)"
        )

    def preserve(
        self, captured: Any, program: Any, passes: list[tuple], stages: list[Any]
    ) -> None:
        """Keeps what the graph became, on request."""
        if os.environ.get("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "0") in (
            "",
            "0",
        ):
            return
        folder = Path(os.environ.get("TORCH_NEURONX_DEBUG_DIR", "/tmp/neuron_backend"))
        folder.mkdir(parents=True, exist_ok=True)
        model = re.sub(r"[^\w.-]", "_", self.settings.model_name or "model")
        stem = f"{model}_{os.getpid()}_{self.number}_{self.settings.kind}"
        variant = f"{stem}_{len(self.native)}"
        with contextlib.suppress(OSError):
            code = self.module.print_readable(print_output=False)
            (folder / f"{stem}.fx.py").write_text(code)
            (folder / f"{variant}.program").write_text(
                "\n".join(
                    [
                        f"// captured\n{captured.text}",
                        *(
                            f"// {name}: {changes} operations\n{after.text}"
                            for name, changes, after in passes
                        ),
                        *(
                            f"// stage {k} of {len(stages)}\n{stage.program.text}"
                            for k, stage in enumerate(stages, 1)
                            if len(stages) > 1
                        ),
                    ]
                )
            )
            (folder / f"{variant}.stablehlo.mlir").write_text(program.stablehlo)
            with contextlib.suppress(_C.IllegalProgram):
                (folder / f"{variant}.hardware").write_text(
                    "\n".join(
                        f"// {name}: {changes} operations\n{after.text}"
                        for name, changes, after in program.hardware_passes("trn2")
                    )
                )


def call_site(node: Node | None) -> str:
    """Where the user's code called the operator, as part of a sentence."""
    trace = node.meta.get("stack_trace") if node is not None else None
    frames = re.findall(r'File "(.+)", line (\d+), in .*\n\s*(.+)', trace or "")
    if not frames:
        return ""
    file, line, code = frames[-1]
    return f"; called from {file}:{line}: {code}"


def _stages() -> int:
    """Programs that a graph may become, see docs/compilation.md."""
    text = os.environ.get("TORCH_NEURONX_GRAPH_STAGES", "8")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"TORCH_NEURONX_GRAPH_STAGES={text}: expected 1 or more")
    return int(text)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Operand, Number))


def _is_cpu(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _computes_on_cpu(placeholder: Node) -> bool:
    """A tensor on the CPU that is more than a number among tensors of the device."""
    if not _is_cpu(placeholder):
        return False
    return bool(placeholder.users) and (
        placeholder.meta["val"].dim() > 0
        or any(
            _is_cpu(user) or user.op == "output" or user.target is aten._to_copy.default
            for user in placeholder.users
        )
    )


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first to the last, both included."""
    return 1 + sum(
        (size - 1) * stride
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """A permutation of a layout without gaps or overlaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _storage(node: Node) -> Any:
    return node.meta["val"].untyped_storage()._cdata
