"""Loading a submission: inside it, and inside its own helper modules, triton is the simulator.

Resolution is by the importing module (each gets its own ``__import__``), never by sys.modules:
a partial triton there breaks torch.compile, dynamo and optimisers. Confines nothing.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import linecache
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from grader.simulator.language import modules

# a helper file may not shadow what the submission itself needs
_NEVER_LOCAL = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "triton"}


def load_module(path: Path, *, name: str) -> types.ModuleType:
    """Execute a submission file, and register it in sys.modules under ``name``.

    Args:
        path: The file; helper modules are looked up in its folder.
        name: Module name, such as "softmax".

    Raises:
        FileNotFoundError: If there is no such file.
        Exception: Whatever the file raises, with its own lines in the traceback.
    """
    return _Folder(Path(path).resolve().parent).load(Path(path).resolve(), name)


class _Folder:
    """The modules of one submission's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loaded: dict[str, types.ModuleType] = {}
        self.builtins = {**vars(builtins), "__import__": self.import_module}
        self.importlib = self._importlib()

    def load(self, path: Path, name: str) -> types.ModuleType:
        # from bytes, compile heeds a byte order mark and a coding line, as import does
        source = path.read_bytes()
        module = types.ModuleType(name)
        module.__file__ = str(path)
        module.__spec__ = ModuleSpec(name, None, origin=str(path))
        module.__package__ = name.rpartition(".")[0]
        module.__dict__["__builtins__"] = self.builtins
        linecache.checkcache(str(path))
        before = sys.modules.get(name)
        self.loaded[path.stem] = sys.modules[name] = module
        try:
            exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102  running the submission is the purpose
        except BaseException:
            del self.loaded[path.stem]
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before
            raise
        return module

    def import_module(
        self,
        name: str,
        globals: Any = None,  # noqa: A002  the signature of __import__
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """__import__ for the submission's modules."""
        if level == 0 and name.partition(".")[0] == "triton":
            return self._triton(name, fromlist)
        if level == 0 and name.partition(".")[0] == "importlib":
            real = builtins.__import__(name, globals, locals, fromlist, level)
            return self.importlib if real is importlib else self.importlib.util
        local = self._local(name) if level <= 1 else None
        if level == 1 and not name:
            # a relative import of the folder itself
            package = types.SimpleNamespace()
            for item in fromlist:
                found = self._local(item)
                if found is None:
                    raise ImportError(f"no module {item!r} in the submission's folder", name=item)
                setattr(package, item, found)
            return package
        if local is not None:
            return local
        return builtins.__import__(name, globals, locals, fromlist, level)

    def _triton(self, name: str, fromlist: Any) -> types.ModuleType:
        found = modules()
        if name not in found:
            raise ModuleNotFoundError(
                f"No module named {name!r} in the simulator; it has {', '.join(sorted(found))}",
                name=name,
            )
        # `import a.b` binds a, `from a.b import c` takes c from b
        return found[name] if fromlist else found["triton"]

    def _local(self, name: str) -> types.ModuleType | None:
        if not name.isidentifier() or name in _NEVER_LOCAL:
            return None
        if name in self.loaded:
            return self.loaded[name]
        path = self.root / f"{name}.py"
        return self.load(path, name) if path.is_file() else None

    def _importlib(self) -> Any:
        """Importlib whose import_module and find_spec know the simulator too."""
        shim, util = types.ModuleType("importlib"), types.ModuleType("importlib.util")
        shim.__dict__.update(vars(importlib))
        util.__dict__.update(vars(importlib.util))

        def import_module(name: str, package: str | None = None) -> Any:
            if name.partition(".")[0] == "triton":
                return self._triton(name, ("*",))
            return importlib.import_module(name, package)

        def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
            if name.partition(".")[0] == "triton":
                return modules()[name].__spec__ if name in modules() else None
            return importlib.util.find_spec(name, package)

        util.__dict__["find_spec"] = find_spec
        shim.__dict__.update(import_module=import_module, util=util)
        return shim
