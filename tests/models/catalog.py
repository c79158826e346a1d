"""Every model by name. A spec is `name` or `name:key=value,key=value`, e.g. `conv:h=17,w=19,stride=2`."""

import inspect
import pathlib

import numpy as np

from . import basic, classifiers, decoder, images, pre_norm, recurrent, transformer, vision
from .builder import check, seeded

SYMBOLIC_BATCH = "N"


def _bert(name, **fixed):
    def build(batch, layers=fixed["layers"], hidden=fixed["hidden"], heads=fixed["heads"], seq=fixed["seq"],
              vocabulary=fixed["vocabulary"]):
        return transformer.bert(name, batch, layers, hidden, heads, seq, vocabulary,
                                dynamic_shapes=fixed.get("dynamic_shapes", False))
    build.__doc__ = transformer.bert.__doc__
    return build


def _encoder(name, hidden, heads):
    """Transformers of table 3.5 of Chimera's thesis: heads of 64, 512 positions."""
    def build(batch, layers=6, hidden=hidden, heads=heads, seq=512):
        return transformer.encoder(name, batch, layers, hidden, heads, seq)
    build.__doc__ = transformer.encoder.__doc__
    return build


MODELS = {
    "resnet18": vision.resnet18,
    "resnet50": vision.resnet50,
    "mobilenet_v1": vision.mobilenet_v1,
    "squeezenet1_1": vision.squeezenet1_1,
    "alexnet": classifiers.alexnet,
    "vgg19": classifiers.vgg19,
    "inception_v1": classifiers.inception_v1,
    "densenet121": classifiers.densenet121,
    "shufflenet_v1": classifiers.shufflenet_v1,
    "resnet20": images.resnet20,
    "unet": images.unet,
    "espcn": images.espcn,
    "vit_b16": pre_norm.vit_b16,
    "gpt2": pre_norm.gpt2,
    "mi_lstm": recurrent.mi_lstm,
    "decoder": decoder.decoder,
    "bert_base": _bert("bert_base", layers=12, hidden=768, heads=12, seq=128, vocabulary=30522),
    "bert_tiny": _bert("bert_tiny", layers=2, hidden=128, heads=2, seq=32, vocabulary=1000),
    "bert_tiny_shapes": _bert("bert_tiny_shapes", layers=2, hidden=128, heads=2, seq=32, vocabulary=1000,
                              dynamic_shapes=True),
    "tf_small": _encoder("tf_small", hidden=512, heads=8),
    "tf_base": _encoder("tf_base", hidden=768, heads=12),
    "tf_large": _encoder("tf_large", hidden=1024, heads=16),
    "mlp": basic.mlp,
    "gemm": basic.gemm,
    "matmul": basic.matmul,
    "conv": basic.conv,
    "tiny": basic.tiny,
}

# The same topology with smaller extents, for fast tests.
REDUCED = {
    "alexnet": "alexnet:size=67,slim=8,classes=10",
    "vgg19": "vgg19:size=32,slim=8,classes=10",
    "inception_v1": "inception_v1:size=64,slim=4,classes=10",
    "densenet121": "densenet121:size=64,slim=4,classes=10",
    "shufflenet_v1": "shufflenet_v1:size=64,slim=4,classes=10",
    "unet": "unet:size=56,width=12",
    "espcn": "espcn:size=37,width=17",
    "vit_b16": "vit_b16:size=40,patch=8,layers=2,hidden=48,heads=3,classes=10",
    "gpt2": "gpt2:layers=2,hidden=48,heads=3,seq=19,vocabulary=101,positions=32",
    "tf_small": "tf_small:layers=2,hidden=48,heads=3,seq=21",
    "tf_base": "tf_base:layers=1,hidden=36,heads=2,seq=17",
    "tf_large": "tf_large:layers=1,hidden=40,heads=5,seq=9",
    "mi_lstm": "mi_lstm:steps=5,inputs=13,hidden=24",
}


def parse(spec):
    """`conv:h=17,w=19` -> ("conv", {"h": 17, "w": 19}); ValueError names what is accepted."""
    name, _, tail = spec.partition(":")
    if name not in MODELS:
        raise ValueError(f"model {name!r} is not known; there are: {', '.join(MODELS)}")
    accepted = [p for p in inspect.signature(MODELS[name]).parameters if p != "batch"]
    parameters = {}
    for item in filter(None, tail.split(",")):
        key, _, value = item.partition("=")
        if key not in accepted or not value.lstrip("-").isdigit():
            raise ValueError(f"{item!r} does not fit model {name!r}; accepted are integers for: {', '.join(accepted)}")
        parameters[key] = int(value)
    return name, parameters


def stem(spec, batch=SYMBOLIC_BATCH):
    """File name without extension: `conv_h17_w19`, with `_b3` for a fixed batch."""
    name, parameters = parse(spec)
    parts = [name] + [f"{key}{value}" for key, value in parameters.items()]
    return "_".join(parts + ([] if batch == SYMBOLIC_BATCH else [f"b{batch}"]))


def build(spec, batch=SYMBOLIC_BATCH):
    """The ModelProto; `batch` is an integer or a symbolic name."""
    name, parameters = parse(spec)
    return MODELS[name](batch, **parameters)


def _image(random, shape):
    """Coarse blocks plus noise: plain noise averages out, and every image would get the same answer."""
    rows, columns = (np.arange(extent) * 7 // extent for extent in shape[2:])
    blocks = random.standard_normal((*shape[:2], 7, 7), dtype=np.float32)
    noise = random.standard_normal(shape, dtype=np.float32)
    return blocks[:, :, rows][:, :, :, columns] + np.float32(0.5) * noise


def inputs(model, spec, batch):
    """Seeded inputs of `model` by name: images, normal floats, token ids, masks with padding at the end."""
    name, parameters = parse(spec)
    declared = inspect.signature(MODELS[name]).parameters
    vocabulary = parameters.get("vocabulary", declared["vocabulary"].default) if "vocabulary" in declared else None
    arrays = {}
    for value in model.graph.input:
        shape = [d.dim_value if d.HasField("dim_value") else batch for d in value.type.tensor_type.shape.dim]
        random = seeded("inputs", name, value.name, batch)
        if value.name == "input_ids":
            arrays[value.name] = random.integers(0, vocabulary, shape, dtype=np.int64)
        elif value.name == "attention_mask":
            lengths = random.integers(shape[1] // 2, shape[1] + 1, (shape[0], 1))
            arrays[value.name] = (np.arange(shape[1])[None, :] < lengths).astype(np.int64)
        elif len(shape) == 4:
            arrays[value.name] = _image(random, shape)
        else:
            arrays[value.name] = random.standard_normal(shape, dtype=np.float32)
    return arrays


def write(spec, folder, batch=SYMBOLIC_BATCH, input_batches=(1, 3)):
    """Writes `<stem>.onnx` and, for each batch, `<stem>.b<batch>.npz`. Equal calls give equal bytes.

    Returns {"model": path, "inputs": {batch: path}}.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = build(spec, batch)
    check(model)
    base = folder / stem(spec, batch)
    path = base.with_name(base.name + ".onnx")
    path.write_bytes(model.SerializeToString(deterministic=True))
    written = {"model": str(path), "inputs": {}}
    for count in input_batches if batch == SYMBOLIC_BATCH else (batch,):
        target = base.with_name(f"{base.name}.b{count}.npz")
        np.savez(target, **inputs(model, spec, count))
        written["inputs"][count] = str(target)
    return written
