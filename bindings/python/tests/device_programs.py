# SPDX-License-Identifier: Apache-2.0
"""The programs of device_test.py that run with and without libvram: CuPy, Numba and ONNX Runtime. Each returns the bits
of its results."""
import hashlib


class Skip(Exception):
    """What the item needs is not here."""


def load(name):
    try:
        return __import__(name, fromlist=["_"])
    except ImportError as error:
        raise Skip(f"no {name}: {error}") from None


def digest(*arrays):
    """The bits of numpy arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def cupy_program():
    """Arrays, streams, pinned copies; the same bits whoever allocates."""
    cupy, numpy = load("cupy"), load("numpy")
    random = numpy.random.default_rng(7)
    found = []
    for step in range(30):
        host = random.standard_normal((200 + step * 13, 333)).astype("float32")
        array = cupy.asarray(host)
        product = cupy.dot(array, array.T)
        found.append(cupy.asnumpy(cupy.sort(product.ravel())[:1000]))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    parts = []
    for step in range(40):
        with streams[step % 4] as stream:
            block = cupy.full((1 << 18,), step, dtype=cupy.float32)
            for _ in range(5):
                block = block * 1.5 - 1
            parts.append(block.get(stream=stream))
            stream.synchronize()
    pinned = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(4 << 20), dtype="float32", count=1 << 20)
    pinned[:] = 3
    there = cupy.empty(1 << 20, dtype="float32")
    there.set(pinned)
    found.append(cupy.asnumpy(there.cumsum()))
    return digest(*found, *parts)


def numba_program():
    numpy = load("numpy")
    if not hasattr(numpy, "row_stack"):  # numba-cuda's compiler still looks for it
        numpy.row_stack = numpy.vstack
    cuda = load("numba.cuda")

    @cuda.jit
    def scale(array, factor):
        at = cuda.grid(1)
        if at < array.size:
            array[at] = array[at] * factor + 1

    random = numpy.random.default_rng(3)
    found = []
    streams = [cuda.stream() for _ in range(3)]
    for step in range(30):
        host = random.standard_normal(100000 + 999 * step).astype("float32")
        stream = streams[step % 3]
        there = cuda.to_device(host, stream=stream)
        scale[(host.size + 255) // 256, 256, stream](there, numpy.float32(1.25))
        found.append(there.copy_to_host(stream=stream))
        stream.synchronize()
        del there
    pinned = cuda.pinned_array(50000, dtype=numpy.float32)
    pinned[:] = 2
    there = cuda.to_device(pinned)
    scale[200, 256](there, numpy.float32(3))
    found.append(there.copy_to_host())
    mapped = cuda.mapped_array(1000, dtype=numpy.float32)
    mapped[:] = 1
    scale[4, 256](mapped, numpy.float32(2))
    cuda.synchronize()
    found.append(numpy.array(mapped))
    managed = cuda.managed_array(1000, dtype=numpy.float32)
    managed[:] = 1
    scale[4, 256](managed, numpy.float32(2))
    cuda.synchronize()
    found.append(numpy.array(managed))
    with cuda.pinned(found[0]):
        found.append(cuda.to_device(found[0]).copy_to_host())
    return digest(*found)


def _field(number, value):
    """One field of a protobuf message: a number, text, bytes or a message."""
    def varint(left):
        out = bytearray()
        while left > 127:
            out.append(left & 127 | 128)
            left >>= 7
        return bytes(out + bytes([left]))
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_model(width, layers):
    """A chain of MatMul and Relu with weights of its own, as the bytes of a model."""
    numpy = load("numpy")
    random = numpy.random.default_rng(11)

    def value(name):
        shape = b"".join(_field(1, _field(1, size)) for size in (64, width))
        return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))

    graph = _field(2, "chain")
    for layer in range(layers):
        source = "x" if layer == 0 else f"r{layer - 1}"
        target = "y" if layer == layers - 1 else f"r{layer}"
        weights = (random.standard_normal((width, width)) / width ** 0.5).astype("float32")
        graph += _field(1, _field(1, source) + _field(1, f"w{layer}") + _field(2, f"m{layer}") + _field(4, "MatMul"))
        graph += _field(1, _field(1, f"m{layer}") + _field(2, target) + _field(4, "Relu"))
        graph += _field(5, _field(1, width) + _field(1, width) + _field(2, 1) + _field(8, f"w{layer}") +
                        _field(9, weights.tobytes()))
    graph += _field(11, value("x")) + _field(12, value("y"))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def onnx_program(options):
    runtime, numpy = load("onnxruntime"), load("numpy")
    if "CUDAExecutionProvider" not in runtime.get_available_providers():
        raise Skip("this ONNX Runtime has no CUDA")
    if hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()  # CUDA's libraries where pip has put them
    session = runtime.InferenceSession(onnx_model(512, 8), providers=[("CUDAExecutionProvider", options)])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise Skip("ONNX Runtime cannot load its CUDA provider here")
    x = numpy.random.default_rng(5).standard_normal((64, 512)).astype("float32")
    results = [session.run(None, {"x": x})[0] for _ in range(20)]
    assert all((each == results[0]).all() for each in results)
    return digest(results[0]), session
