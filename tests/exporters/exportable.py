"""What torch's exporters get: a module with drawn weights, two sets of inputs, and the dimensions in which the sets differ."""

import dataclasses
import inspect

import torch
import transformers

VOCABULARY = 101
torch.set_num_threads(1)
torch.manual_seed(0)  # each export is a fork of the process that imported this: all draw the same weights
BATCH, LENGTH, ANY = torch.export.Dim("batch"), torch.export.Dim("length"), torch.export.Dim.DYNAMIC


@dataclasses.dataclass
class Exportable:
    """`varying` has, for each input, {axis: name of a dimension}. `script`: use the exporter by tracing, older than
    the one by torch.export and still the default of Optimum and Ultralytics."""
    module: torch.nn.Module
    inputs: list
    varying: list
    script: bool = False
    opset: int | None = None  # the operator set version; None: the exporter's default
    formulas: dict = dataclasses.field(default_factory=dict)  # {name of a dimension: how it follows from others}

    def write(self, path):
        """Exports with the first set of inputs; returns the names of the inputs."""
        names = [f"input{number}" for number in range(len(self.inputs[0]))]
        with torch.no_grad():
            if self.script:
                axes = {name: {axis: getattr(dim, "__name__", f"{name}_{axis}") for axis, dim in each.items()}
                        for name, each in zip(names, self.varying) if each}
                torch.onnx.export(self.module, self.inputs[0], str(path), dynamo=False, input_names=names, dynamic_axes=axes,
                                  opset_version=self.opset)
            else:
                program = torch.onnx.export(self.module, self.inputs[0], dynamo=True, input_names=names, verbose=False,
                                            opset_version=self.opset, dynamic_shapes=self._by_parameter(self.varying))
                program.save(str(path), external_data=False)
        return names

    def arrays(self):
        return [[each.numpy() for each in given] for given in self.inputs]

    def answers(self):
        with torch.no_grad():
            results = [self.module(*given) for given in self.inputs]
        return [[each.numpy() for each in (result if isinstance(result, (tuple, list)) else [result])] for result in results]

    def _by_parameter(self, values):
        """The values for forward's parameters: those of *inputs are one tuple."""
        parameters = list(inspect.signature(self.module.forward).parameters.values())
        first = next((at for at, each in enumerate(parameters) if each.kind == each.VAR_POSITIONAL), None)
        return tuple(values) if first is None else (*values[:first], tuple(values[first:]))


class Call(torch.nn.Module):
    """Calls a model of transformers with positional inputs; returns the chosen fields of its result."""

    def __init__(self, model, fields, names, **arguments):
        super().__init__()
        self.model, self.fields, self.names, self.arguments = model.eval(), fields, names, arguments

    def forward(self, *inputs):
        result = self.model(**dict(zip(self.names, inputs)), **self.arguments)
        return tuple(result[field] for field in self.fields)


def prepare():
    """Exports a tiny module, which loads what all exports need."""
    Exportable(torch.nn.Linear(3, 3).eval(), [(drawn(2, 3),)], [{0: ANY}]).write("/dev/null")


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def tokens(batch, length, below=VOCABULARY):
    return torch.randint(0, below, (batch, length), generator=torch.Generator().manual_seed(100 * batch + length))


def masked_tokens(batch, length):
    """Token numbers and a mask in which the last sequence is one token shorter."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -1] = 0
    return tokens(batch, length), mask


def configured(family, head, **values):
    """A model of transformers with weights drawn by its own initialization."""
    config = getattr(transformers, f"{family}Config")(**values)
    return getattr(transformers, f"{family}{head}")(config)


def images(module, size, channels=3, varying=None, second=None, **more):
    """A module of one image input: batches of 2 and 3, and another size for the second set if the module allows it."""
    sizes = [size, second or size]
    inputs = [(drawn(batch, channels, each, each),) for batch, each in zip((2, 3), sizes)]
    axes = {0: BATCH} if second is None else {0: BATCH, 2: ANY, 3: ANY}
    return Exportable(module.eval(), inputs, [varying or axes], **more)
