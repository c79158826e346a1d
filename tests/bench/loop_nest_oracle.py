"""Reference for an operator's loop nest: reads a kernel's manifest, draws tensors and computes results with PyTorch in f64."""

import re
import string

_TERM = re.compile(r"([+-]?)\s*(?:(\d+)\s*\*\s*)?([a-z]\w*|\d+)")
GUARD_BYTES = 4096  # after each result; must stay unwritten
POISON = 0xFF  # NaN in all floating-point types


def _access(text):
    """Name and subscripts of "W[c, k, -r + 3]"; each subscript is {loop: coefficient} and a constant."""
    name, _, inside = text.strip().rstrip("]").partition("[")
    subscripts = []
    for part in inside.split(","):
        loops, constant = {}, 0
        for sign, factor, what in _TERM.findall(part):
            number = (-1 if sign == "-" else 1) * int(factor or 1)
            if what.isdigit():
                constant += number * int(what)
            else:
                loops[what] = loops.get(what, 0) + number
        subscripts.append((loops, constant))
    return name.strip(), subscripts


class Nest:
    def __init__(self, torch, manifest, seed):
        self.torch, self.manifest = torch, manifest
        self.extents = {loop["name"]: loop["extent"] for loop in manifest["loops"]}
        result, sources = manifest["operator"].split("+=")
        self.accesses = [_access(text) for text in (result, *re.findall(r"\w+\[[^]]*\]", sources))]
        self.types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
                      "s8": torch.int8, "u8": torch.uint8, "s32": torch.int32, "i8": torch.int8, "i32": torch.int32}
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.sources = [self._drawn(parameter, generator) for parameter in manifest["parameters"][1:]]
        added = [_access(step.strip()[1:]) for step in manifest["epilogue"] if step.strip().startswith("+")]
        self.epilogue = [None if step.strip() == "relu" else added.pop(0) for step in manifest["epilogue"]]
        self.result_type = self.types[manifest["parameters"][0]["type"]]
        self.shape = manifest["parameters"][0]["shape"]
        self._expected = None

    def _drawn(self, parameter, generator):
        torch, dtype = self.torch, self.types[parameter["type"]]
        if dtype.is_floating_point:
            wide = torch.promote_types(dtype, torch.float32)
            drawn = torch.rand(parameter["shape"], generator=generator, device="cuda", dtype=wide) * 2 - 1
            return drawn.to(dtype)
        info = torch.iinfo(dtype)
        return torch.randint(info.min, info.max + 1, parameter["shape"], generator=generator, device="cuda", dtype=dtype)

    def _view(self, tensor, access):
        """The tensor over all loops of its subscripts, and their einsum letters."""
        strides, offset = {}, 0
        for (loops, constant), stride in zip(access[1], tensor.stride()):
            offset += constant * stride
            for loop, coefficient in loops.items():
                strides[loop] = strides.get(loop, 0) + coefficient * stride
        backwards = [d for d, (loop, stride) in enumerate(strides.items()) if stride < 0]
        offset += sum(stride * (self.extents[loop] - 1) for loop, stride in strides.items() if stride < 0)
        view = self.torch.as_strided(tensor, [self.extents[loop] for loop in strides],
                                     [abs(stride) for stride in strides.values()], offset)
        return self.torch.flip(view, backwards) if backwards else view, list(strides)

    def expected(self):
        """Results, and the sums of the magnitudes of their products, in f64."""
        if self._expected is None:
            letters = {loop: string.ascii_letters[i] for i, loop in enumerate(self.extents)}
            views = [self._view(source.double(), access) for source, access in zip(self.sources, self.accesses[1:])]
            spelled = [letters_of(letters, loops) for _, loops in views]
            order = [loop for loops, _ in self.accesses[0][1] for loop in loops]
            equation = f"{','.join(spelled)}->{letters_of(letters, order)}"
            tensors = [view for view, _ in views]
            self._expected = self._finished(order, self.torch.einsum(equation, *tensors),
                                            self.torch.einsum(equation, *(view.abs() for view in tensors)))
        return self._expected

    def _finished(self, order, sums, magnitudes):
        """Applies the epilogue's steps; `order` names the dimensions. Integers are exact in f64, sum by sum."""
        more = iter(self.sources[2:])
        for access in self.epilogue:
            if access is None:
                sums = sums.clamp_min(0)
                continue
            view, loops = self._view(next(more).double(), access)
            present = [loop for loop in order if loop in loops]
            view = view.permute([loops.index(loop) for loop in present])
            view = view.reshape([self.extents[loop] if loop in loops else 1 for loop in order])
            sums, magnitudes = sums + view, magnitudes + view.abs()
            if not self.result_type.is_floating_point:  # 32-bit integers wrap
                sums = (sums + 2**31).remainder(2**32) - 2**31
        return sums.reshape(self.shape), magnitudes.reshape(self.shape)

    def compared(self, kernel):
        """Runs the kernel on a poisoned result. Returns the largest error as a share of its bound: 0 for equal
        integers, infinite if integers differ, a result is missing, or bytes after the results were written."""
        torch = self.torch
        bytes_ = self.result_type.itemsize
        for extent in self.shape:
            bytes_ *= extent
        memory = torch.full((bytes_ + GUARD_BYTES,), POISON, dtype=torch.uint8, device="cuda")
        result = memory[:bytes_].view(self.result_type).reshape(self.shape)
        kernel.launch([result, *self.sources])
        torch.cuda.synchronize()
        expected, magnitudes = self.expected()
        if not bool((memory[bytes_:] == POISON).all()):
            return float("inf")
        if not self.result_type.is_floating_point:
            return 0.0 if bool((result.double() == expected).all()) else float("inf")
        share = (result.double() - expected).abs() / (kernel.manifest["bound"] * magnitudes).clamp_min(1e-300)
        largest = float(share.max())
        return largest if bool(torch.isfinite(share).all()) else float("inf")


def letters_of(letters, loops):
    return "".join(letters[loop] for loop in loops)
