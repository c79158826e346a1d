"""LSTM, GRU and RNN: directions, activations, clipping, lengths, initial states."""

from fuzz.cases.table import operator

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OTHERS = ("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Softplus", "LeakyRelu", "Elu", "ThresholdedRelu", "Affine",
          "ScaledTanh")
WITH_ALPHA = {"HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.1, None), "Elu": (1.0, None), "ThresholdedRelu": (0.1, None),
              "Affine": (0.8, 0.1), "ScaledTanh": (0.9, 0.7)}

for _name, _gates in GATES.items():
    def _layer(c, x, name=_name, gates=_gates):
        if 0 in x.shape or x.size > 600:
            return None
        direction = c.pick("forward", "reverse", "bidirectional")
        directions, hidden = 2 if direction == "bidirectional" else 1, c.pick(1, 2, 3, 5, 8)
        steps, batch = x.shape[:2]
        if steps > 6:
            return None
        attributes = {"hidden_size": hidden} | ({"direction": direction} if direction != "forward" else {})
        scale = 1 / hidden
        inputs = [x.name, c.operand(x.type, (directions, gates * hidden, x.shape[2]), -scale, scale, fixed=0.9),
                  c.operand(x.type, (directions, gates * hidden, hidden), -scale, scale, fixed=0.9)]
        state = (directions, batch, hidden)
        optional = [((directions, 2 * gates * hidden), x.type), ((batch,), "i32"), (state, x.type)]
        optional += [(state, x.type), ((directions, 3 * hidden), x.type)] if name == "LSTM" else []
        for shape, kind in optional[:c.integer(0, len(optional))]:
            low, high = (1, steps) if kind == "i32" else (-1, 1)
            inputs.append(c.operand(kind, shape, low, high) if c.chance(0.7) else "")
        while not inputs[-1]:
            inputs.pop()
        if c.chance(0.3):
            chosen = [c.pick(*OTHERS) if c.chance(0.5) else default for default in DEFAULTS[name]] * directions
            pairs = [WITH_ALPHA[activation] for activation in chosen if activation in WITH_ALPHA]
            attributes["activations"] = chosen
            alphas, betas = [a for a, _ in pairs], [b for _, b in pairs if b is not None]
            attributes |= {"activation_alpha": alphas} if alphas else {}
            attributes |= {"activation_beta": betas} if betas else {}
        attributes |= {"clip": c.real(0.3, 2)} if c.chance(0.2) else {}
        attributes |= {"linear_before_reset": c.integer(0, 1)} if name == "GRU" and c.chance(0.5) else {}
        attributes |= {"input_forget": 1} if name == "LSTM" and c.chance(0.1) else {}
        if name == "LSTM" and "clip" in attributes:  # NumPy is the oracle there, and has these activations
            for key in ("activations", "activation_alpha", "activation_beta"):
                attributes.pop(key, None)
        c.sums(steps * (hidden + x.shape[2]))
        outputs = c.pick(1, 2, 3) if name == "LSTM" else c.pick(1, 2)
        return c.node(name, *inputs, kind=[x.type] * outputs, outputs=outputs, **attributes)
    operator(_name, ("f32",), (3,), since=7)(_layer)
