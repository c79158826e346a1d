"""Published networks at full size, compiled by the service, compared with ONNX Runtime at batch 1 and 3.

Their reduced variants are in models_match_onnxruntime: same operators, same topology, smaller extents.
"""

import pytest

from e2e.matching import matches
from models import catalog

pytestmark = [pytest.mark.large, pytest.mark.timeout(3000)]


@pytest.mark.parametrize("batch", (1, 3))
@pytest.mark.parametrize("spec", catalog.REDUCED)
def test_matches(service, oracle, spec, batch):
    matches(service, oracle, spec, batch, timeout=1200)
