"""@triton.autotune: constants of a kernel of which tuning chooses the fastest.

Measures nothing: which config runs is a number that whoever runs the host code may ask for, 0
unless asked. Each config is one kernel launch, as if tuning had found it the fastest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from grader.simulator import advice, log, modes
from grader.simulator.choosing import Chooser
from grader.simulator.dtypes import is_lifted
from grader.simulator.errors import StaticAssertError, source_line
from grader.simulator.specialisation import Choice, tuning

Hook = Callable[..., Any]


class _Asked:
    config = 0


@contextlib.contextmanager
def use_config(number: int) -> Iterator[None]:
    """In this block every @triton.autotune takes its config of this number, modulo how many it has."""
    before, _Asked.config = _Asked.config, number
    try:
        yield
    finally:
        _Asked.config = before


class Config:
    """One choice of constants and launch options."""

    def __init__(
        self,
        kwargs: Mapping[str, Any] | None = None,
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Hook | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs or {})
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """Constants and launch options, those that are set."""
        options = {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "num_stages": self.num_stages,
            "maxnreg": self.maxnreg,
            "ir_override": self.ir_override,
        }
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}

    def __repr__(self) -> str:
        chosen = {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}
        return f"Config({', '.join(f'{k}: {v}' for k, v in chosen.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (*self.all_kwargs().items(), self.pre_hook)


class Autotuner(Chooser):
    """@triton.autotune without a clock.

    Attributes:
        cache: By the values of ``keys`` and the dtypes of all tensors: the config that ran first. As
            on a GPU, ``reset_to_zero`` and hooks of autotune run for a key's first launch only.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str] = (),
        *,
        prune_configs_by: Mapping[str, Any] | None = None,
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Hook | None = None,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config()]
        self.keys = list(key)
        self.cache: dict[Any, Config] = {}
        self.best_config = self.configs[0]
        self._prune = dict(prune_configs_by or {})
        self._reset = list(reset_to_zero or ())
        self._restored = {*self._reset, *(restore_value or ())}
        self._pre_hook = pre_hook

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch with the config asked for; a config that fails tl.static_assert is passed over.

        Raises:
            ValueError: If the call gives a constant that a config chooses.
        """
        named = self.positional(args)
        given = {**kwargs, "grid": grid, "warmup": False}
        configs = self._pruned(named, given) if len(self.configs) > 1 else self.configs
        first = _Asked.config % len(configs)
        configs = configs[first:] + configs[:first]
        for i, config in enumerate(configs):
            try:
                self._run_one(config, [*configs[i:], *configs[:i]], args, kwargs, named | given)
            except StaticAssertError:
                if i + 1 == len(configs):
                    raise
            else:
                break

    def _run_one(
        self,
        config: Config,
        configs: Sequence[Config],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        named: Mapping[str, Any],
    ) -> None:
        twice = sorted(config.kwargs.keys() & named.keys())
        if twice:
            raise ValueError(
                f"launch of {self.__name__}: {', '.join(twice)} is chosen by autotune, so the call "
                "must not give it"
            )
        full = {**named, **config.all_kwargs()}
        if len(self.configs) > 1 and (key := self._key(named)) not in self.cache:
            self.cache[key] = config
            self._reset_after_tuning(full)
        if config.pre_hook is not None:
            config.pre_hook(full)
        self.best_config = config
        with tuning(self._choices(configs, args, kwargs)):
            self.fn.run(*args, grid=named["grid"], **{**kwargs, **config.all_kwargs()})
        if len(configs) > 1 and config.pre_hook is None and self._pre_hook is None:
            self._note_repeated_updates(named)

    def _key(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        """What Triton tunes anew for; here also for another config that is asked for."""
        own = {name: value for name, value in named.items() if name in self.arg_names}
        values = [own[name] for name in self.keys if name in own]
        dtypes = [str(value.dtype) for value in own.values() if hasattr(value, "dtype")]
        return (*values, *dtypes, _Asked.config)

    def _reset_after_tuning(self, full: dict[str, Any]) -> None:
        if self._pre_hook is not None:
            self._pre_hook(full, reset_only=True)
            return
        for name in self._reset:
            if name not in full:
                raise ValueError(
                    f"launch of {self.__name__}: reset_to_zero names {name}, but the kernel has"
                    f" {', '.join(self.arg_names)}"
                )
            full[name].zero_()

    def _pruned(self, named: dict[str, Any], given: dict[str, Any]) -> list[Config]:
        """The configs that are left, by ``early_config_prune``, then ``perf_model`` and ``top_k``.

        Raises:
            ValueError: If none is.
            TypeError: If top_k is neither a fraction up to 1.0 nor an integer.
        """
        early, model = self._prune.get("early_config_prune"), self._prune.get("perf_model")
        top_k = self._prune.get("top_k", 1.0)
        configs = list(early(self.configs, named, **given)) if early else self.configs
        if model is not None:
            if isinstance(top_k, float) and top_k <= 1.0:
                top_k = int(len(self.configs) * top_k)
            if not isinstance(top_k, int):
                raise TypeError(f"autotune: top_k is {top_k!r}, want a float up to 1.0 or an int")
            if len(configs) > top_k:
                told_ms = [model(**named, **given, **config.all_kwargs()) for config in configs]
                order = sorted(range(len(configs)), key=told_ms.__getitem__)
                configs = [configs[i] for i in order[:top_k]]
        if not configs:
            raise ValueError(f"launch of {self.__name__}: prune_configs_by leaves no config")
        return configs

    def _choices(
        self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Choice]:
        """What each config would launch, for the log; the one that does comes first."""
        if not log.is_recording() or is_lifted():
            return []
        return [(repr(c), *self.fn.bind(args, {**kwargs, **c.all_kwargs()})) for c in configs]

    def _note_repeated_updates(self, named: Mapping[str, Any]) -> None:
        """On a GPU tuning runs the kernel many times: what it updates must be restored."""
        launch = log.last_launch()
        if launch is None:
            return
        restored = {_storage(named[n]) for n in self._restored if n in named}
        moved = {
            n: t for n, t in launch.arguments.items() if isinstance(named.get(n), torch.Tensor)
        }
        read = {_storage(named[n]) for n, t in moved.items() if t.read}
        updated = [
            n
            for n, t in moved.items()
            if (t.atomics or (t.written and _storage(named[n]) in read))
            and _storage(named[n]) not in restored
        ]
        file, line = self.definition
        log.add_findings(
            [
                log.Finding(
                    "note",
                    self.__name__,
                    file,
                    line,
                    source_line(file, line),
                    (0, 0, 0),
                    name,
                    None,
                    f"the kernel updates {name}, and on a GPU autotune runs it many times to choose"
                    " a config: the update is repeated",
                    advice=advice.repeated_update(name),
                )
                for name in updated
            ]
        )


def _storage(tensor: torch.Tensor) -> int:
    with modes.bare():
        return tensor.untyped_storage().data_ptr()


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Hook | None = None,
    post_hook: Hook | None = None,
    **_options: Any,
) -> Callable[[Any], Autotuner]:
    """@triton.autotune. ``post_hook`` undoes a tuning run, and none is made here."""
    return lambda fn: Autotuner(
        fn,
        configs,
        key,
        prune_configs_by=prune_configs_by,
        reset_to_zero=reset_to_zero,
        restore_value=restore_value,
        pre_hook=pre_hook,
    )
