"""CUDA C++ compiled for the host and run: what passes, and what is found and where."""

from __future__ import annotations

import contextlib
import gc
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.cuda_host import build, inline, native
from grader.cuda_host.inline import StoppedError, Watch
from grader.cuda_host.native import Finding

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(build.host_compiler() is None, reason="there is no C++ compiler"),
]

HEAD = "#include <torch/types.h>\n#include <c10/cuda/CUDAException.h>\n"
KERNEL = """
__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
"""
LAUNCHER = """
torch::Tensor f(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x has gaps, ", x.dim(), " axes");
  torch::Tensor y = torch::empty_like(x);
  int n = x.numel();
  k<<<(n + 3) / 4, 4>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""
DECLARATION = "torch::Tensor f(torch::Tensor x);"
X = torch.arange(1.0, 11.0)


class Extension:
    """One compiled source, and what was seen of its calls."""

    def __init__(self, cuda: str, declaration: str = DECLARATION) -> None:
        self.watch = Watch(on_host=True)
        self.module = self.watch.load_inline(
            name="f", cpp_sources=declaration, cuda_sources=HEAD + cuda, functions=["f"]
        )

    def __call__(self, *arguments: Any) -> Any:
        """Call f."""
        return self.module.f(*arguments)

    @property
    def run(self) -> native.Run:
        """The last call."""
        return self.watch.seen.runs[-1]

    def found(self) -> list[tuple[str, bool, str, int, int]]:
        """Kind, whether it writes, tensor, index and count of each finding."""
        return [(f.kind, f.is_write, f.tensor, f.index, f.count) for f in self.run.findings]


def kernel(body: str) -> str:
    """The launcher above, and a kernel with this body."""
    return f"__global__ void k(const float* in, float* out, int n) {{\n{body}\n}}\n" + LAUNCHER


def test_a_right_kernel_computes_and_finds_nothing() -> None:
    """Values, launch and memory, for a size that is no multiple of the block."""
    f = Extension(KERNEL + LAUNCHER)

    assert torch.equal(f(X), 2 * X)
    assert f.found() == []
    assert f.run.launches == [native.Launch("k", (3, 1, 1), (4, 1, 1), refused=False)]
    assert f.run.pending == ""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = 2 * in[i];",
            [("out_of_bounds", False, "0", 10, 2)],
            id="no-guard",
        ),
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i + 1] = 2 * in[i];",
            [("out_of_bounds", True, "result", 10, 1)],
            id="write-behind",
        ),
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = in[i - 1];",
            [("out_of_bounds", False, "0", -1, 1)],
            id="read-before",
        ),
        pytest.param(
            "int i = threadIdx.x; out[i] = in[i] + blockIdx.x;",
            [("race", True, "result", 0, 8)],
            id="race",
        ),
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; i = i < n ? i : n - 1; out[i] = in[i];",
            [],
            id="the-same-value-twice",
        ),
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] += in[i];",
            [("uninitialised", False, "result", 0, 10)],
            id="uninitialised",
        ),
        pytest.param(
            "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
            "if (i < 2) { float4 v = reinterpret_cast<const float4*>(in)[2 * i]; out[i] = v.x; }",
            [("out_of_bounds", False, "0", 2, 1)],
            id="float4-over-the-end",
        ),
        pytest.param(
            "float a[2]; float* p = a; p[0] = 1; p[1] = 2; int i = threadIdx.x;\n"
            "if (blockIdx.x == 0) out[i] = p[i & 1];",
            [],
            id="local-array",
        ),
        pytest.param(
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;"
            " i += blockDim.x * gridDim.x)\n  out[i] = __ldg(in + i);",
            [],
            id="grid-stride",
        ),
        pytest.param("out[1 << 29] = 0;", [("out_of_bounds", True, "", 0, 12)], id="far-away"),
    ],
)
def test_each_wrong_access_is_found_with_its_place(
    body: str, found: list[tuple[str, bool, str, int, int]]
) -> None:
    """Kind, tensor and index as the kernel's text says; nothing else is found."""
    f = Extension(kernel(body))

    f(X)

    assert f.found() == found


def test_a_finding_names_line_block_and_thread() -> None:
    """Of the source as it was given: the head has two lines, the kernel's signature is the third."""
    f = Extension(kernel("int i = blockIdx.x * 4 + threadIdx.x;\nout[i] = in[i];"))

    f(X)

    (found,) = f.run.findings
    assert (found.line, found.block, found.thread, found.kernel) == (5, (2, 0, 0), (2, 0, 0), "k")
    assert found == Finding(
        "out_of_bounds", False, "0", 10, 10, 2, "k", (2, 0, 0), (2, 0, 0), found.line
    )


def test_a_thread_ends_at_its_first_wrong_access_and_others_go_on() -> None:
    """So what is inside still gets its values."""
    f = Extension(kernel("int i = blockIdx.x * 4 + threadIdx.x; out[i] = 2 * in[i];"))

    assert torch.equal(f(X), 2 * X)


def test_memory_of_the_gpu_is_not_the_hosts() -> None:
    """Code of the launcher that reads through a pointer of the GPU."""
    text = LAUNCHER.replace("  return y;", "  y.data_ptr<float>()[0] = 1;\n  return y;")
    f = Extension(KERNEL + text)

    f(X)

    assert f.found() == [("on_host", True, "result", 0, 1)]


def test_a_refused_launch_is_an_error_only_for_who_asks() -> None:
    """Without a check it stays pending, as on a GPU, and no thread runs."""
    impossible = LAUNCHER.replace("4>>>", "2048>>>")
    asked = Extension(KERNEL + impossible)
    unasked = Extension(KERNEL + impossible.replace("  C10_CUDA_KERNEL_LAUNCH_CHECK();\n", ""))

    with pytest.raises(RuntimeError, match="invalid configuration argument"):
        asked(X)
    y = unasked(X)

    assert unasked.run.pending == "invalid configuration argument"
    assert unasked.run.launches[0].refused
    assert (y.view(torch.int32) == 0x7FC0DEAD).all()


def test_checks_of_pytorch_raise_in_python() -> None:
    """TORCH_CHECK with its parts, a wrong dtype, and arguments that do not fit."""
    f = Extension(KERNEL + LAUNCHER)

    with pytest.raises(RuntimeError, match="x has gaps, 1 axes"):
        f(X[::2])
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        f(X.double())
    with pytest.raises(TypeError, match="incompatible function arguments"):
        f(X, 2)


def test_a_dtype_that_is_not_known_here_is_told() -> None:
    """Half precision: x is float32, so the submission chose it."""
    f = Extension(KERNEL + LAUNCHER)

    with pytest.raises(StoppedError):
        f(X.half())
    assert "float16" in f.watch.seen.dtype


def test_strides_storage_and_scalars_come_through() -> None:
    """A view of a transposed matrix, numbers beside it, a result of another shape."""
    text = """
torch::Tensor f(const torch::Tensor& x, int64_t times, double plus, bool on) {
  TORCH_CHECK(x.size(0) == 3 && x.stride(0) == 1 && x.stride(1) == 5 && x.storage_offset() == 2);
  torch::Tensor dense = x.contiguous();
  torch::Tensor y = torch::zeros({2, times}, x.options());
  k<<<1, 6>>>(dense.data_ptr<float>(), y.data_ptr<float>(), on ? 6 : 0);
  TORCH_CHECK(plus == 0.5);
  return y.view({-1, 2});
}
"""
    f = Extension(KERNEL + text, "torch::Tensor f(const torch::Tensor&, int64_t, double, bool);")
    x = torch.arange(20.0).reshape(4, 5)[:2, 2:5].t()

    y = f(x, 3, 0.5, True)

    assert torch.equal(y, 2 * x.contiguous().view(3, 2))
    assert f.found() == []


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.ones(3, 4), id="contiguous"),
        pytest.param(torch.ones(3, 4).t(), id="transposed"),
        pytest.param(torch.ones(2, 3, 4).permute(2, 0, 1), id="permuted"),
        pytest.param(torch.ones(3, 8)[:, ::2], id="gaps"),
        pytest.param(torch.ones(1, 4).expand(3, 4), id="expanded"),
        pytest.param(torch.ones(5, 1, 2)[:, :, :1], id="axes-of-one"),
    ],
)
def test_new_tensors_have_the_strides_that_pytorch_gives_them(x: torch.Tensor) -> None:
    """empty_like keeps an order of axes without gaps; contiguous() does not."""
    text = """
torch::Tensor f(torch::Tensor x, int64_t how) {
  if (how == 0) return torch::empty_like(x);
  return how == 1 ? x.clone() : x.contiguous();
}
"""
    f = Extension(
        KERNEL + LAUNCHER.replace("f(", "g(") + text,
        "torch::Tensor f(torch::Tensor x, int64_t how);",
    )

    assert f(x, 0).stride() == torch.empty_like(x).stride()
    assert f(x, 1).stride() == x.clone().stride()
    assert f(x, 2).stride() == x.contiguous().stride()
    assert torch.equal(f(x, 1), x)


def test_a_tensor_is_changed_in_place() -> None:
    """Through a pointer, through a view; the same tensor comes back."""
    text = """
torch::Tensor f(torch::Tensor x) {
  k<<<1, 16>>>(x.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return x;
}
"""
    f = Extension(KERNEL + text)
    whole = X.clone()

    y = f(whole[2:5])

    assert whole.tolist() == [1, 2, 6, 8, 10, 6, 7, 8, 9, 10]
    assert y.data_ptr() == whole[2:].data_ptr()


def test_an_output_may_be_an_argument() -> None:
    """A function that returns nothing."""
    text = """
void f(torch::Tensor x, torch::Tensor y) {
  k<<<4, 4>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}
"""
    f = Extension(KERNEL + text, "void f(torch::Tensor x, torch::Tensor y);")
    y = torch.zeros(10)

    assert f(X, y) is None
    assert torch.equal(y, 2 * X)


def test_what_tutorials_write_compiles(tmp_path: Path) -> None:
    """Old and new ways to ask a tensor, streams, options, guards, and all of std at once."""
    text = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
using namespace std;
#define CHECK_CUDA(x) TORCH_CHECK(x.type().is_cuda(), #x " must be a CUDA tensor")
inline unsigned int cdiv(unsigned int a, unsigned int b) { return (a + b - 1) / b; }
__constant__ float two = 2.0f;
__device__ __forceinline__ float twice(float a) { return two * a; }
static __global__ void __launch_bounds__(256) k(const float* __restrict__ in, float* out, int n) {
  const auto i = threadIdx.x + blockDim.x * blockIdx.x;
  if (i >= n) return;
  out[i] = fmaxf(twice(in[i]), -1e30f);
}
torch::Tensor f(const at::Tensor& x) {
  CHECK_CUDA(x);
  TORCH_CHECK(x.device().type() == torch::kCUDA && x.dtype() == torch::kFloat32);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto n = x.numel();
  auto y = torch::empty({n}, torch::TensorOptions().dtype(x.dtype()).device(x.device()));
  int threads = min(256, max(1, 64)), shared = 0;
  auto stream = at::cuda::getCurrentCUDAStream();
  k<<<cdiv(n, threads), threads, shared, stream.stream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n);
  AT_CUDA_CHECK(cudaGetLastError());
  cudaDeviceSynchronize();
  return y;
}
"""
    f = Extension(text, "torch::Tensor f(const at::Tensor& x);")

    assert torch.equal(f(X), 2 * X)
    assert f.found() == []
    names = {"main.cpp": "cpp_sources", "cuda.cu": "cuda_sources"}
    if shutil.which("nvcc"):
        assert build.nvcc_refusal(build.Sources("", text, ()), names, tmp_path) is None


@pytest.mark.parametrize(
    ("shape", "body", "wanted"),
    [
        ((2, 3, 4), "x.view(-1)", (24,)),
        ((2, 3, 4), "x.reshape(-1)", (24,)),
        ((2, 3, 4), "x.flatten()", (24,)),
        ((2, 3, 4), "x.flatten(0, -1)", (24,)),
        ((2, 3, 4), "x.flatten(1)", (2, 12)),
        ((2, 3, 4), "x.flatten(0, 1)", (6, 4)),
        ((), "x.flatten()", (1,)),
        ((2, 6), "x.view_as(x).reshape_as(x)", (2, 6)),
        ((0,), "x.view(-1)", (0,)),
    ],
)
def test_a_view_has_the_shape_that_pytorch_gives_it(
    shape: tuple[int, ...], body: str, wanted: tuple[int, ...]
) -> None:
    """One number stands for a list of one; flatten joins the axes from first to last."""
    f = Extension(
        KERNEL
        + LAUNCHER.replace("f(", "g(")
        + f"torch::Tensor f(torch::Tensor x) {{ return {body}; }}"
    )

    assert f(torch.ones(shape)).shape == wanted


def test_axes_that_are_none_cannot_be_flattened() -> None:
    """As PyTorch's, it raises."""
    text = "torch::Tensor f(torch::Tensor x) { return x.flatten(0, 2); }"
    f = Extension(KERNEL + LAUNCHER.replace("f(", "g(") + text)

    with pytest.raises(RuntimeError, match="flatten"):
        f(torch.ones(2, 3))


def test_a_launcher_may_ask_for_the_properties_of_the_gpu() -> None:
    """In PyTorch's way and in CUDA's: the same GPU."""
    text = """
#include <ATen/cuda/CUDAContext.h>
torch::Tensor f(torch::Tensor x) {
  torch::Tensor y = torch::empty_like(x);
  int device = -1;
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  TORCH_CHECK(device == c10::cuda::current_device() && sms == properties.multiProcessorCount);
  k<<<std::min(sms, 3), 4>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
    f = Extension(KERNEL + text)

    assert torch.equal(f(X), 2 * X)


def test_templates_and_dispatch() -> None:
    """A kernel for any type, launched through PyTorch's dispatch."""
    text = """
template <typename T>
__global__ void k(const T* __restrict__ in, T* __restrict__ out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = max(in[i], T(3));
}
torch::Tensor f(torch::Tensor x) {
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", [&] {
    k<scalar_t><<<3, 4>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
  });
  return y;
}
"""
    f = Extension(text)

    assert torch.equal(f(X), X.clamp(min=3))
    assert torch.equal(f(X.double()), X.double().clamp(min=3))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("*(volatile int*)8 = 1;", "SIGSEGV"),
        ("__builtin_trap();", "SIG(ILL|TRAP)"),
        ("for (volatile int a = 0; ; ) {}", "took over 1 s"),
    ],
)
def test_a_launcher_that_ends_badly_is_told(
    body: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal or the time limit; this process goes on."""
    monkeypatch.setattr(native, "CALL_LIMIT_S", 1.0)
    f = Extension(KERNEL + LAUNCHER.replace("  return y;", f"  {body}\n  return y;"))

    with pytest.raises(StoppedError, match=said):
        f(X)


def test_an_exit_is_no_result() -> None:
    """Whoever leaves early has computed nothing."""
    f = Extension(KERNEL + LAUNCHER.replace("  return y;", "  exit(0);"))

    with pytest.raises(StoppedError, match="it ended the process"):
        f(X)


def processes_of(folder: Path) -> list[str]:
    """Processes whose program lies in a folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(folder):
                found.append(link.parent.name)
    return found


def groups_alive() -> set[int]:
    """Process groups with a process that runs."""
    groups = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # after the name in brackets: state, parent, group
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
            groups |= set() if state == "Z" else {int(group)}
    return groups


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("for (;;) fork();", id="fork"),
        pytest.param('for (;;) if (system("sleep 60 &")) {}', id="system"),
    ],
)
def test_a_launcher_that_forks_leaves_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not fork, and whatever it starts ends with it."""
    monkeypatch.setattr(native, "CALL_LIMIT_S", 0.3)
    text = LAUNCHER.replace("  return y;", f"  {how}\n  return y;")
    f = Extension("#include <stdlib.h>\n#include <unistd.h>\n" + KERNEL + text)
    started: list[int] = []
    real = native.end_group

    def end_group(process: subprocess.Popen[Any]) -> None:
        started.append(process.pid)
        real(process)

    monkeypatch.setattr(native, "end_group", end_group)

    with pytest.raises(StoppedError, match="took over"):
        f(X)

    assert processes_of(f.watch.scratch) == []
    assert started[0] not in groups_alive()


def test_fork_is_refused() -> None:
    """So that no loop of it can fill the machine."""
    text = LAUNCHER.replace("  return y;", "  TORCH_CHECK(fork() < 0 && vfork() < 0);\n  return y;")
    f = Extension("#include <unistd.h>\n" + KERNEL + text)

    assert torch.equal(f(X), 2 * X)


def test_the_scratch_folder_goes_with_its_watch() -> None:
    """Nothing is left in the folder of temporary files."""
    f = Extension(KERNEL + LAUNCHER)
    f(X)
    scratch = f.watch.scratch
    assert scratch.is_dir()

    del f
    gc.collect()

    assert not scratch.exists()


def test_a_busy_machine_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not compiled in time is no verdict for the cases that follow."""
    f = Extension(KERNEL + LAUNCHER)

    with monkeypatch.context() as context:
        context.setattr(build, "WALL_LIMIT_S", 0.001)
        with pytest.raises(StoppedError, match="machine that compiles it within"):
            f(X)
    f.watch.seen = inline.Seen()

    assert torch.equal(f(X), 2 * X)
    assert f.watch.seen.refusal is None


def test_what_cannot_be_run_earns_nothing_for_being_compiled() -> None:
    """The case that only compiles cannot be checked then, too."""
    f = Extension(kernel("__shared__ float a[4];"))
    f.watch.only_compile = True

    with pytest.raises(StoppedError):
        f(X)

    assert f.watch.seen.refusal is not None
    assert f.watch.seen.refusal.kind == "unsupported"


def test_a_kernel_that_never_ends_is_asked_only_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later cases need not wait as long again; the crash names block and thread."""
    monkeypatch.setattr(native, "CALL_LIMIT_S", 0.5)
    f = Extension(kernel("volatile int a = 0; while (!a) {}"))

    for _ in range(inline.MAX_TIMEOUTS):
        with pytest.raises(StoppedError, match="took over"):
            f(X)
    n_runs = len(f.watch.seen.runs)
    with pytest.raises(StoppedError, match="not run"):
        f(X)

    assert len(f.watch.seen.runs) == n_runs
    assert f.watch.seen.refusal is not None
    assert f.watch.seen.refusal.kind == "timeout"


@pytest.mark.parametrize(
    ("cuda", "declaration", "kind", "said"),
    [
        (
            KERNEL.replace("2 * in", "2 in") + LAUNCHER,
            DECLARATION,
            "compile_error",
            "cuda_sources:6",
        ),
        (KERNEL + LAUNCHER, "", "compile_error", "'f'"),
        (
            KERNEL + LAUNCHER,
            "torch::Tensor f(const torch::Tensor& x);",
            "compile_error",
            "defined nowhere: f(",
        ),
        (
            KERNEL + LAUNCHER.replace("return y", "return torch::square(x)"),
            DECLARATION,
            "foreign",
            "torch::square",
        ),
        (
            KERNEL + LAUNCHER.replace("return y", "return x * x"),
            DECLARATION,
            "foreign",
            "arithmetic",
        ),
        (
            "torch::Tensor f(torch::Tensor x) { return x.clone(); }",
            DECLARATION,
            "foreign",
            "no kernel",
        ),
        (kernel("__shared__ float a[4];"), DECLARATION, "unsupported", "__shared__"),
        (kernel("__syncthreads();"), DECLARATION, "unsupported", "__syncthreads"),
        (kernel("atomicAdd(out, 1.0f);"), DECLARATION, "unsupported", "atomicAdd"),
        (kernel("std::cout << 1;"), DECLARATION, "unsupported", "std::cout"),
        ("#include <cub/cub.cuh>\n" + KERNEL + LAUNCHER, DECLARATION, "unsupported", "cub/cub.cuh"),
        (
            KERNEL
            + LAUNCHER.replace("f(", "g(")
            + "std::vector<torch::Tensor> f(torch::Tensor x) { return {x}; }",
            "std::vector<torch::Tensor> f(torch::Tensor x);",
            "unsupported",
            "takes and returns",
        ),
    ],
)
def test_a_refused_source_says_why(cuda: str, declaration: str, kind: str, said: str) -> None:
    """A mistake with its line, or what is lacking here."""
    f = Extension(cuda, declaration)

    with pytest.raises(StoppedError):
        f(X)

    refusal = f.watch.seen.refusal
    assert refusal is not None
    assert refusal.kind == kind, refusal.lines
    assert any(said in line for line in refusal.lines), refusal.lines


def test_a_file_of_its_own_may_define_the_module(tmp_path: Path) -> None:
    """``load`` with a .cu file that holds PYBIND11_MODULE."""
    module = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("g", &f, "Twice."); }\n'
    (tmp_path / "own.cu").write_text("#include <torch/extension.h>\n" + KERNEL + LAUNCHER + module)
    watch = Watch(on_host=True)

    loaded = watch.load(name="own", sources=[str(tmp_path / "own.cu")])

    assert torch.equal(loaded.g(X), 2 * X)
    with pytest.raises(AttributeError, match="no function h"):
        loaded.h(X)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_sees_what_a_host_compiler_cannot(tmp_path: Path) -> None:
    """A kernel that calls a function of the host compiles for the host, and not for a GPU."""
    call = "float g(float a) { return a; }\n" + KERNEL.replace("2 * in[i]", "g(in[i])") + LAUNCHER
    right = build.Sources(DECLARATION, HEAD + KERNEL + LAUNCHER, ("f",))
    wrong = build.Sources(DECLARATION, HEAD + call, ("f",))
    names = {"main.cpp": "cpp_sources", "cuda.cu": "own.cu"}

    refusal = build.nvcc_refusal(wrong, names, tmp_path)

    assert build.nvcc_refusal(right, names, tmp_path) is None
    assert isinstance(build.for_host(wrong, names, tmp_path), Path)
    assert refusal is not None
    assert refusal.kind == "compile_error"
    assert refusal.lines[0].startswith("own.cu:7: ")
