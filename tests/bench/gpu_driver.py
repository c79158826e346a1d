"""Loads, launches and times kernels of `tessera kernel` through the CUDA driver API, on PyTorch's stream."""

import ctypes
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

FLUSHED_BYTES = 256 << 20  # more than any L2


class NoGpu(Exception):
    """No GPU or driver to run kernels on; the message says which part is missing."""


def torch_with_gpu():
    try:
        import torch
    except ImportError as error:
        raise NoGpu(f"PyTorch, which makes the tensors and is compared with, is not there: {error}") from None
    if not torch.cuda.is_available():
        raise NoGpu("PyTorch finds no GPU")
    return torch


class Driver:
    """libcuda in the context that PyTorch created."""

    def __init__(self):
        self.torch = torch_with_gpu()
        self.torch.zeros(1, device="cuda")
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoGpu(f"the GPU's driver is not there: {error}") from None
        self.ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
        major, minor = self.torch.cuda.get_device_capability()
        self.chip = f"sm_{major}{minor}"
        self.flushed = self.torch.empty(FLUSHED_BYTES, dtype=self.torch.uint8, device="cuda")

    def call(self, name, *arguments):
        error = getattr(self.library, name)(*arguments)
        if error != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(error, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()} ({error})")

    def assembled(self, path):
        """The kernel assembled for this chip; without an assembler its PTX text, which the driver compiles."""
        text = pathlib.Path(path).read_bytes()
        if not self.ptxas:
            return text + b"\0"
        own = self.chip + ("a" if f".target {self.chip}a".encode() in text else "")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as code:
            done = subprocess.run([self.ptxas, f"-arch={own}", path, "-o", code.name], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"ptxas on {path}: {done.stdout}{done.stderr}")
            return pathlib.Path(code.name).read_bytes()

    def median_us(self, once, milliseconds=40, least=5, most=50, cold=True):
        """Median time of one run by events on the stream, each after a pass over more than L2, or back to back."""
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(2):
            once()
        begin.record()
        once()
        end.record()
        end.synchronize()
        count = max(least, min(most, int(milliseconds / max(begin.elapsed_time(end), 1e-3))))
        times = []
        for _ in range(count):
            if cold:
                self.flushed.fill_(1)
            begin.record()
            for _ in range(1 if cold else 10):
                once()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * (1000 if cold else 100))
        return statistics.median(times)


class Kernel:
    """A kernel's file with its manifest."""

    def __init__(self, driver, path, code=None):
        self.driver, self.manifest = driver, json.loads(pathlib.Path(path).with_suffix(".json").read_text())
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(module), code or driver.assembled(path))
        self.module = module
        driver.call("cuModuleGetFunction", ctypes.byref(self.function), module, self.manifest["entry"].encode())
        shared = self.manifest["shared_bytes"]
        if shared > 48 << 10:
            driver.call("cuFuncSetAttribute", self.function, 8, ctypes.c_int(shared))

    def attribute(self, number):
        value = ctypes.c_int()
        self.driver.call("cuFuncGetAttribute", ctypes.byref(value), number, self.function)
        return value.value

    def registers(self):
        return self.attribute(4)

    def spilled_bytes(self):
        return self.attribute(3)

    def launch(self, tensors):
        addresses = [ctypes.c_uint64(tensor.data_ptr()) for tensor in tensors]
        parameters = (ctypes.c_void_p * len(tensors))(*(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in addresses))
        stream = ctypes.c_void_p(self.driver.torch.cuda.current_stream().cuda_stream)
        self.driver.call("cuLaunchKernel", self.function, self.manifest["grid"], 1, 1, self.manifest["threads"], 1, 1,
                         self.manifest["shared_bytes"], stream, parameters, None)

    def close(self):
        self.driver.call("cuModuleUnload", self.module)
