"""One small random graph: a chain of operators, grown step by step on known values.

A case grows as a coroutine. It yields a Step and is sent the arrays that ONNX Runtime computed for it, or None if ONNX
Runtime rejects the step; the case then tries another one. So all shapes are known, data-dependent ones included, and
operators with a bounded domain get values inside it. Equal seeds give equal cases; a case of fewer steps is a prefix of
the longer one.
"""

import dataclasses

import numpy as np
from onnx import helper

from fuzz.cases import types
from models.builder import seeded

EXTENTS = (1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 8, 9, 13, 16, 17, 31, 32, 33, 64)
TRIES = 60
# Operators whose result size depends on data, and operators that accept such values anywhere. The compiler rejects most
# others after such a value, and names the unknown dimension.
DATA_DECIDE = frozenset(("Compress", "NonZero", "NonMaxSuppression", "Unique"))
TAKE_ANY_EXTENT = frozenset(("Abs", "Neg", "Cast", "Identity", "Not", "Relu", "Sign", "Ceil", "Floor", "Transpose"))


@dataclasses.dataclass
class Value:
    """A tensor of the case. `exact`: all correct implementations compute the same bits."""
    name: str
    type: str
    array: np.ndarray
    exact: bool = True
    bounded: bool = False  # whether an extent depends on the data of a run

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim

    @property
    def size(self):
        return self.array.size


@dataclasses.dataclass
class Step:
    """One drawn operator with its helper nodes. `outputs`: (name, type) of the values that others may read."""
    operator: str
    nodes: list
    outputs: list
    reads: list  # names of values
    exact: bool
    reduced: int  # terms of the longest sum of one element
    promote: bool  # whether its integers may be computed in i64 and cut if the oracle lacks their type
    outer: list = dataclasses.field(default_factory=list)  # values that its bodies read

    @property
    def needs(self):
        """All names that the step reads and does not define."""
        made = {name for node in self.nodes for name in node.output}
        read = [name for node in self.nodes for name in node.input] + self.outer
        return list(dict.fromkeys(name for name in read if name and name not in made))

    def in_i64(self, values):
        """Names with the type of the results or of the first operand, which are computed in i64 together."""
        kinds = {kind for _, kind in self.outputs} | {values[self.needs[0]].type}
        return {name for name in self.needs if values[name].type in kinds and values[name].type not in ("bool", "i64")}


class Draw:
    """Random choices, determined by the seed."""

    def __init__(self, *key):
        self.random = seeded(*key)

    def pick(self, *options):
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability):
        return float(self.random.random()) < probability

    def integer(self, low, high):
        """In [low, high]."""
        return int(self.random.integers(low, high + 1))

    def real(self, low, high):
        return float(np.float32(self.random.uniform(low, high)))


class Case(Draw):
    def __init__(self, seed, operators, steps, opset=17, largest=3000, prefix=None):
        """`operators`: Specs to draw from (fuzz.cases.table)."""
        super().__init__("fuzz case", seed, opset, largest)
        self.seed, self.wanted, self.opset, self.largest = seed, steps, opset, largest
        self.prefix = f"c{seed}_" if prefix is None else prefix
        self.operators = [spec for spec in operators if spec.since <= opset <= spec.until]
        self.values, self.steps, self.constants, self.inputs = [], [], {}, {}
        self._read, self._count = set(), 0

    # Interface to the outside.

    @property
    def nodes(self):
        return [node for step in self.steps for node in step.nodes]

    @property
    def results(self):
        """All values that no step reads, and sometimes another."""
        made = [value for value in self.values if value.name not in self.inputs]
        ends = [value for value in made if value.name not in self._read]
        middle = [value for value in made if value.name in self._read]
        return ends + (middle[:1] if self.seed % 3 == 0 else [])

    def value_named(self, name):
        """The value of this name: computed, constant or input."""
        return next(v for v in (*self.values, *self.constants.values(), *self.inputs.values()) if v.name == name)

    def grow(self):
        """The coroutine (see the module)."""
        for number in range(self.wanted):
            for _ in range(TRIES):
                step = self._draw(first=number == 0)
                if step is None:
                    continue
                arrays = yield step
                if arrays is not None and all(a.size <= 2 * self.largest and a.ndim <= 7 for a in arrays):
                    self._take(step, arrays)
                    break
                self._forget()
            else:
                return  # no operator fits any more: the case ends here

    def _take(self, step, arrays):
        self.steps.append(step)
        self._read.update(step.reads)
        bounded = step.operator in DATA_DECIDE or any(self.value_named(name).bounded for name in step.reads)
        for (name, kind), array in zip(step.outputs, arrays):
            self.values.append(Value(name, kind, types.stored(kind, array), step.exact, bounded))

    def _draw(self, first):
        """A Step of some operator, or None if the draw does not fit."""
        spec = self.operators[int(self.random.integers(len(self.operators)))]
        self._step = Step(spec.name, [], [], [], spec.exact, 1, spec.promote)
        self._kept = len(self.values), dict(self.constants), dict(self.inputs)
        x = self._first(spec) if first else self._later(spec)
        made = spec.make(self, x) if x is not None else None
        if made is None:
            self._forget()
            return None
        names = [made] if isinstance(made, str) else list(made)
        step = self._step
        kinds = {name: kind for node in step.nodes for name, kind in zip(node.output, node.kinds)}
        step.outputs = [(name, kinds[name]) for name in names]
        read = [self._operand(name) for name in step.needs]
        step.reads = [value.name for value in read if value is not None]
        step.exact = (spec.exact is True or spec.exact == "integers" and not types.is_float(x.type)) and all(
            value is None or value.exact for value in read)
        rounded = not all(value is None or value.exact for value in read)
        if rounded and (spec.chooses or spec.jumps and not self.chance(0.05)):
            self._forget()  # rounding alone would decide the result
            return None
        if any(value is not None and value.bounded for value in read) and (
                spec.name not in TAKE_ANY_EXTENT or len(step.reads) > 1):
            self._forget()
            return None
        return step

    def _forget(self):
        del self.values[self._kept[0]:]
        self.constants, self.inputs = self._kept[1], self._kept[2]

    def _operand(self, name):
        return next((v for v in (*self.values, *self.constants.values(), *self.inputs.values()) if v.name == name), None)

    def _first(self, spec):
        return self.input(self.pick(*spec.types), self.shape(self.pick(*spec.ranks)), spec.low, spec.high)

    def _later(self, spec):
        """In a short chain the last operator's result. In a graph any value, larger and later ones more often, or
        sometimes a new input."""
        made = [value for value in self.values if value.name not in self.inputs]
        fitting = [value for value in made if value.type in spec.types and value.rank in spec.ranks]
        if self.wanted > 4:
            if self.chance(0.06):
                return self._first(spec)
            some = [fitting[int(self.random.integers(len(fitting)))] for _ in range(3)] if fitting else []
            return max(some, key=lambda value: value.size, default=None)
        return fitting[-1] if fitting and fitting[-1].name in dict(self.steps[-1].outputs) else None

    # Used by operators to draw operands and attributes.

    def unique(self, stem="v"):
        self._count += 1
        return f"{self.prefix}{stem}{self._count}"

    def extent(self):
        return self.pick(*EXTENTS) if not self.chance(0.01) else 0

    def shape(self, rank):
        shape = [self.extent() for _ in range(rank)]
        while np.prod(shape) > self.largest:
            at = int(np.argmax(shape))
            shape[at] = max(1, shape[at] // 2)
        return tuple(shape)

    def axis(self, rank, least=0):
        """An axis of a value of `rank` dimensions, counted from either end."""
        axis = self.integer(least, rank - 1)
        return axis - rank if self.chance(0.4) else axis

    def array(self, kind, shape, low=None, high=None):
        """Values for such operators: mostly ordinary, sometimes on a coarse grid or with both zeros."""
        return types.drawn(self, kind, shape, low, high)

    def input(self, kind, shape, low=None, high=None):
        value = Value(self.unique("x"), kind, self.array(kind, shape, low, high))
        self.inputs[value.name] = value
        self.values.append(value)
        return value

    def constant(self, array, kind=None):
        """An initializer."""
        array = np.asarray(array)
        kind = kind or types.of(array.dtype)
        value = Value(self.unique("k"), kind, types.stored(kind, array))
        self.constants[value.name] = value
        return value.name

    def integers(self, values):
        return self.constant(np.asarray(values, np.int64))

    def scalar(self, kind, number):
        if types.is_float(kind):
            number = min(max(number, -6e4), 6e4) if kind == "f16" else number
        return self.constant(np.asarray(number, types.ARRAYS[kind]), kind)

    def operand(self, kind, shape, low=None, high=None, fixed=0.6):
        """Another operand: a constant, an input, or an existing value."""
        same = [v for v in self.values if v.type == kind and v.shape == tuple(shape)]
        if same and low is None and high is None and self.chance(0.25):
            return self.pick(*same).name
        array = self.array(kind, shape, low, high)
        if self.chance(fixed):
            return self.constant(array, kind)
        value = Value(self.unique("x"), kind, array)
        self.inputs[value.name] = value
        self.values.append(value)
        return value.name

    def broadcast(self, shape):
        """A shape that broadcasts to (or with) this one."""
        shape = [extent if self.chance(0.6) else 1 for extent in shape]
        shape = shape[self.integer(0, len(shape)):] if self.chance(0.4) else shape
        if self.chance(0.1):
            shape = [self.pick(1, 2, 3) if extent == 1 and self.chance(0.5) else extent for extent in shape]
        if self.chance(0.05) and len(shape) < 5:
            shape = [self.pick(1, 2)] + shape
        return tuple(shape)

    def node(self, operator, *inputs, kind=None, outputs=1, domain="", **attributes):
        """Appends a node. `kind`: type of its results, or one type for each. Returns a name, or a list of names."""
        names = [self.unique() for _ in range(outputs)]
        node = helper.make_node(operator, [name or "" for name in inputs], names, name=names[0], domain=domain, **attributes)
        self._step.nodes.append(Node(node, kind if isinstance(kind, (list, tuple)) else [kind] * outputs))
        return names[0] if outputs == 1 else names

    def also_reads(self, *names):
        """Values that the last node's body reads."""
        self._step.outer.extend(names)

    def sums(self, terms):
        self._step.reduced = max(self._step.reduced, int(terms))


class Node:
    """A NodeProto and the types of its results."""

    def __init__(self, proto, kinds):
        self.proto, self.kinds = proto, list(kinds)
        self.input, self.output, self.op_type = proto.input, proto.output, proto.op_type
