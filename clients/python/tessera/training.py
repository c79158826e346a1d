"""Options of a compilation that produces a training step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tessera import errors
from tessera.v1 import training_pb2


@dataclasses.dataclass(frozen=True)
class Training:
    """A step of a model's training in place of the model: its states are the parameters and the optimizer's moments.

    :param loss: "cross-entropy" (integer labels), "mean-squared-error", or "output": the output is the loss.
    :param output: the output that the loss reads, if the model has several.
    :param optimizer: "sgd", "adam", "adamw" or "lamb".
    :param trainable: names of initializers, ``*`` for any characters; none: all of floating-point types.
    :param frozen: names of initializers that stay as they are.
    :param momentum: of sgd; `nesterov`: Nesterov's form of it.
    :param beta1: of the other optimizers, as `beta2` and `epsilon`; None: the usual value.
    :param weight_decay: None: 0, or 0.01 for adamw and lamb.
    :param max_gradient_norm: gradients are scaled to this global norm if theirs is larger; 0: no limit.
    """
    loss: str
    output: str = ""
    optimizer: str = "sgd"
    trainable: Sequence[str] = ()
    frozen: Sequence[str] = ()
    momentum: float = 0.0
    nesterov: bool = False
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    weight_decay: float | None = None
    max_gradient_norm: float = 0.0

    def fill(self, options: training_pb2.TrainingOptions) -> None:
        """Copies the options to the message; a string for `trainable` or `frozen` is an error."""
        for field in ("trainable", "frozen"):
            names = getattr(self, field)
            if isinstance(names, str):
                raise errors.InvalidInput(f"{field} is a list of names", attribute=field, found=names,
                                          accepted=f"[{names!r}]")
            getattr(options, field).extend(names)
        options.loss, options.output, options.max_gradient_norm = self.loss, self.output, self.max_gradient_norm
        optimizer = options.optimizer
        optimizer.name, optimizer.momentum, optimizer.nesterov = self.optimizer, self.momentum, self.nesterov
        for field in ("beta1", "beta2", "epsilon", "weight_decay"):
            if (value := getattr(self, field)) is not None:
                setattr(optimizer, field, value)
