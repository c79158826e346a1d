from collections.abc import Sequence
from typing import Any

import numpy as np

def run(function: int, session: int, inputs: Sequence[np.ndarray[Any, Any] | None], outputs: Sequence[np.ndarray[Any, Any] | None],
        state: int = ..., /) -> int: ...
