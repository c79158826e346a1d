from typing import Any

import numpy as np

def run(function: int, session: int, inputs: list[np.ndarray[Any, Any]], outputs: list[np.ndarray[Any, Any]], /) -> int: ...
