"""PyTorch modules, through PyTorch's own ONNX exporter.

    from tessera import torch_export
    model = torch_export.compile(net, (image,)).artifact.load()
    logits = torch.from_dlpack(model(image)["output_0"])
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from tessera import errors
from tessera.client import Client, default_client
from tessera.compilation import Compilation

OPSET = 13


def export(module: Any, arguments: Sequence[Any], *, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, dynamic_axes: Mapping[str, Any] | None = None,
           opset: int = OPSET) -> bytes:
    """The ONNX bytes of a ``torch.nn.Module``, traced with `arguments` (positional tensors) in evaluation mode.

    Inputs are named "input_0", "input_1", ..., outputs "output_0", ..., unless names are given. `dynamic_axes` is passed to
    ``torch.onnx.export``: it names dimensions that stay open, to be bound by ``shapes`` or ``dims``.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("tessera.torch_export needs PyTorch (Debian: python3-torch)") from error
    arguments = tuple(arguments)
    names = list(input_names) if input_names is not None else [f"input_{i}" for i in range(len(arguments))]
    if len(names) != len(arguments):
        raise errors.InvalidInput(f"{len(names)} names for {len(arguments)} inputs", attribute="input_names")
    was_training = module.training
    module.eval()
    try:
        if output_names is None:
            with torch.no_grad():
                results = module(*arguments)
            count = len(results) if isinstance(results, (tuple, list)) else 1
            output_names = [f"output_{i}" for i in range(count)]
        buffer = io.BytesIO()
        torch.onnx.export(module, arguments, buffer, input_names=names, output_names=list(output_names),
                          dynamic_axes=dict(dynamic_axes or {}), opset_version=opset)
    finally:
        module.train(was_training)
    return buffer.getvalue()


def compile(module: Any, arguments: Sequence[Any], *, client: Client | None = None,
            input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
            dynamic_axes: Mapping[str, Any] | None = None, opset: int = OPSET, **options: Any) -> Compilation:
    """Exports and compiles a module; `options` are those of :meth:`tessera.Client.compile`."""
    model = export(module, arguments, input_names=input_names, output_names=output_names, dynamic_axes=dynamic_axes,
                   opset=opset)
    options.setdefault("name", type(module).__name__)
    return (client or default_client()).compile(model, **options)
