"""@triton.jit: from a Python function to a launch."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from grader.simulator import debug, extremes, loops, rewriting, run, syntax
from grader.simulator import launch as launching
from grader.simulator.constants import constexpr, plain
from grader.simulator.dynamo import hide_from_dynamo
from grader.simulator.errors import (
    KERNEL_BUILTINS,
    CompilationError,
    UnsupportedError,
    refuse,
)
from grader.simulator.launch_state import LaunchState
from grader.simulator.values import Value

LAUNCH_OPTIONS = frozenset(
    {
        "num_warps",
        "num_stages",
        "num_ctas",
        "maxnreg",
        "enable_fp_fusion",
        "launch_cooperative_grid",
        "launch_pdl",
        "debug",
        "stream",
        "ir_override",
    }
)


def _either(ours: Callable[..., Any], python: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and any(isinstance(a, Value) for a in args):
            return functools.reduce(ours, args) if len(args) > 1 else ours(*args)
        return python(*(plain(a) for a in args), **kwargs)

    return choose


KERNEL_BUILTINS.update(
    range=loops.kernel_range,
    min=_either(extremes.minimum, builtins.min),
    max=_either(extremes.maximum, builtins.max),
    print=debug.kernel_print,
    **rewriting.OPERATORS,
)
# what the compiler defines inside kernels, what rewriting needs, and the debugger (which breakpoint()
# imports); no other function of Python's
_DEFINED = {"float", "getattr", "int", "isinstance", "len", "list", "max", "min", "print"}
_DEFINED |= {"locals", "breakpoint"}
for _name, _value in vars(builtins).items():
    is_error = isinstance(_value, type) and issubclass(_value, BaseException)
    if (
        callable(_value)
        and not is_error
        and _name not in {*_DEFINED, "range", "__build_class__", "__import__"}
    ):
        KERNEL_BUILTINS.pop(_name, None)


class JITFunction:
    """What @triton.jit returns: a kernel when launched with a grid, a function inside kernels."""

    def __init__(
        self, fn: Callable[..., Any], do_not_specialize: Sequence[str | int] | None = None
    ) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        self.__wrapped__ = fn
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        self.constants = frozenset(
            name
            for name, p in self.signature.parameters.items()
            if p.annotation is constexpr or "constexpr" in str(p.annotation)
        )
        self.not_specialised = frozenset(
            self.arg_names[name] if isinstance(name, int) else name
            for name in do_not_specialize or ()
        )
        self._was_checked = False
        self._runnable = self.code

    @property
    def code(self) -> types.CodeType:
        """The kernel's bytecode."""
        return self.fn.__code__

    @property
    def definition(self) -> tuple[str, int]:
        """File and line of the kernel."""
        return self.code.co_filename, self.code.co_firstlineno

    @property
    def src(self) -> str:
        """Source text of the kernel."""
        return inspect.getsource(self.fn)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: start(self, grid, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call from inside another kernel.

        Raises:
            CompilationError: On the host.
        """
        if not run.is_running():
            raise CompilationError(
                f"cannot call @triton.jit'd {self.__name__} outside of the scope of a kernel: "
                f"launch it with a grid, {self.__name__}[grid](...)"
            )
        options = {k: v for k, v in kwargs.items() if not k.startswith("_")}
        try:
            self.signature.bind(*args, **options)
        except TypeError as error:
            refuse(f"{self.__name__}: {error}")
        return self.executable(run.current().launch)(*args, **options)

    def executable(self, state: LaunchState) -> Callable[..., Any]:
        """The function with the kernel builtins and the module's globals of this launch."""
        made = state.executables.get(self)
        if made is None:
            fn: Any = self.fn
            if not self._was_checked:
                syntax.check(fn, self.constants)
                self._runnable = rewriting.rewritten(fn)
                self._was_checked = True
            scope = {**fn.__globals__, "__builtins__": KERNEL_BUILTINS}
            made = types.FunctionType(
                self._runnable, scope, fn.__name__, fn.__defaults__, fn.__closure__
            )
            made.__kwdefaults__ = fn.__kwdefaults__
            state.executables[self] = made
        return made

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch: ``kernel[grid](*args, **kwargs)``."""
        if run.is_running():
            raise CompilationError("a kernel cannot launch a kernel")
        if kwargs.pop("warmup", False):
            self.warmup()
        arguments, options = self.bind(args, kwargs)
        launching.launch(
            self,
            self.__name__,
            self.definition,
            self.executable,
            arguments,
            self.constants,
            launching.grid_of(grid, arguments),
            options,
            self.not_specialised,
        )

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a launch by name, and its options.

        Raises:
            TypeError: If they do not fit the kernel's parameters.
        """
        names = self.signature.parameters
        given = {k: v for k, v in kwargs.items() if k in names or k not in LAUNCH_OPTIONS}
        options = {k: v for k, v in kwargs.items() if k not in given}
        order = self.arg_names
        if len(args) + len(given) == len(order) and given.keys() == set(order[len(args) :]):
            # the usual launch names all of them; binding takes a tenth of a small launch
            by_name = {**dict(zip(order, args, strict=False)), **given}
            return {name: plain(by_name[name]) for name in order}, options
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError as error:
            raise TypeError(f"launch of {self.__name__}: {error}") from None
        bound.apply_defaults()
        return {k: plain(v) for k, v in bound.arguments.items()}, options

    def warmup(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused: there is no compiler here."""
        raise UnsupportedError(
            f"{self.__name__}.warmup compiles for a GPU, and the simulator has no compiler; "
            f"launch the kernel, {self.__name__}[grid](...)"
        )


@hide_from_dynamo
def start(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Launch a kernel; torch.compile sees one call that it cannot trace."""
    kernel.run(*args, grid=grid, **kwargs)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    version: Any = None,
    repr: Any = None,  # noqa: A002  Triton's keyword
    launch_metadata: Any = None,
    do_not_specialize: Sequence[str | int] | None = None,
    do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    debug: Any = None,
    noinline: Any = None,
) -> Any:
    """@triton.jit, with or without options; all but one are the compiler's business alone."""
    make = functools.partial(JITFunction, do_not_specialize=do_not_specialize)
    return make if fn is None else make(fn)
