# SPDX-License-Identifier: Apache-2.0
"""The suites of bench/foreign/run.py, and where each lies below the folder FOREIGN (none is in this tree).

  FOREIGN/site           pytest, pytest-xdist, expecttest, hypothesis, psutil and filecheck, as `pip install --target`
                         puts them; not needed where they are installed
  FOREIGN/pytorch/test   PyTorch's tests, of the version that is installed
  FOREIGN/cupy/tests     CuPy's tests, of the version that is installed
  FOREIGN/tms            torch_memory_saver; bench/h200.sh builds it in place
numba-cuda has its tests in its package.
"""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    name: str
    kind: str               # torch, cupy, numba or plain: what is enabled, and what is delayed
    folder: str             # below FOREIGN: where pytest runs
    runs: tuple             # tuples of files; each has a pytest of its own, so that it leaves nothing to the others
    select: str = ""        # pytest's -k
    deselect: tuple = ()    # pytest's --deselect
    processes: int = 1      # this many tests side by side
    seconds: int = 300      # for all of it, in one mode
    test_seconds: int = 100  # a test that takes longer hangs
    flags: tuple = ()       # more of pytest's
    env: dict = field(default_factory=dict)
    vram_env: dict = field(default_factory=dict)  # on libvram only
    native_package: str = ""  # a folder below FOREIGN: on PYTHONPATH, natively only
    stand_in: tuple = ()      # a package of this tree in its place, and files of the suite's that its tests import


CUPY_CUDA = tuple("cupy_tests/cuda_tests/" + name for name in (
    "test_memory.py", "test_stream.py", "test_pinned_memory.py", "test_runtime.py", "test_texture.py"))
CUPY_GRAPH = ("cupy_tests/cuda_tests/test_graph.py",)  # a capture that a failure leaves open fails what comes after it
CUPY_CORE = ("cupy_tests/core_tests/test_ndarray*.py", "cupy_tests/core_tests/test_dlpack.py")
CUPY = {"kind": "cupy", "folder": "cupy/tests", "flags": ("--import-mode=importlib",)}
# PyTorch's conftest.py adds flags of its own runner, and newer versions of pytest refuse it.
TORCH = {"kind": "torch", "folder": "pytorch/test", "flags": ("--noconftest",)}

SUITES = (
    Suite("torch", runs=(("test_cuda.py",),
                         ("test_cuda_trace.py", "test_dlpack.py", "profiler/test_memory_profiler.py")),
          select="not CompileKernel and not autocast and not Autocast", processes=4, **TORCH),
    Suite("trees", runs=(("inductor/test_cudagraph_trees.py",),), processes=4, **TORCH),
    Suite("mp", runs=(("test_multiprocessing.py",),), select="cuda", seconds=240, test_seconds=60, **TORCH),
    Suite("cupy", runs=(CUPY_CUDA, CUPY_GRAPH, CUPY_CORE), processes=8, **CUPY),
    Suite("cupy-ptds", runs=(CUPY_CUDA, CUPY_GRAPH, CUPY_CORE), processes=8,
          env={"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}, **CUPY),
    Suite("tms", "torch", "tms/test", (("test_examples.py",),), seconds=240, native_package="tms",
          stand_in=("bindings/python/vram/torch/stand_in/torch_memory_saver",
                    "tms/torch_memory_saver/testing_utils.py")),
    Suite("numba", "numba", ".", (("numba.cuda.tests.cudadrv",),), flags=("--pyargs", "--import-mode=importlib"),
          vram_env={"NUMBA_CUDA_MEMORY_MANAGER": "vram.numba"}),
    # What frameworks do often, and what waits for the device: their times, one after another.
    Suite("times", runs=(("test_cuda.py",),), seconds=100, **TORCH, select="test_allocator_fuzz or "
          "test_out_of_memory_retry or test_set_per_process_memory_fraction or test_repeat_graph_capture_cublas"),
    # Samples: of all that uses memory and is not about it, what can be run in five minutes.
    Suite("nn", runs=(("test_nn.py",),), processes=4, **TORCH,
          select="cuda and (conv or Conv or rnn or RNN or LSTM or transformer or batchnorm or embedding or pool)"),
    Suite("autograd", runs=(("test_autograd.py",),), processes=4, **TORCH,
          select="cuda or stream or thread or checkpoint or saved"),
    Suite("inductor", runs=(("inductor/test_torchinductor.py",),), processes=4, **TORCH,
          select="GPUTests and (cat or conv or graph or inplace or mutation or pool or softmax or stride or view)"),
)
