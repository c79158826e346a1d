"""This host with costs that are wrong by factors of 10 to 100 and caches of a sixteenth: its code runs here, and a
search soon finds faster code than the default."""

import re

WRONG_PRICES = """
cost_parameters {
  overheads { phase_cycles: 200000 nest_cycles: 100000 slice_cycles: 27000 run_cycles: 2 }
  copies { copy_cycles: 0.01 transpose_cycles: 0.02 slice_copy_cycles: 50 slice_transpose_cycles: 0.01 pack_instructions: 400 }
  products { peak_share: 0.05 max_reduction_block: 16 pack_passes: 400 pack_rows: 2 pack_rows_beyond_l2: 2 columns_per_part: 32 }
  prefetching { streams: 1 prefetch_distance: 1 max_lines_in_flight: 1 }
  vectors { shared_load: 40 strided_load: 0.01 strided_store: 0.01 transposed_load: 0.06 combine: 0.06 }
  layouts { planes_share: 0.05 window_planes_share: 1 sliding_planes_share: 1 sliding_share: 0.01 }
}
"""


# No gain of a fusion, split or transform exceeds the error of its estimated cost.
DOUBTFUL_GAINS = """
cost_parameters { gains { slices_share: 0.6 overlapping_share: 0.6 regions_share: 0.6 winograd_share: 0.6 } }
"""


def _file(service, name, text):
    path = service.scratch(f"{name}.textproto")
    path.write_text(text.replace('name: "host"', f'name: "{name}"', 1))
    service.cli("target", "check", path)
    return path


def _host(service):
    return service.cli("target", "show", "host").out.split("\n\n")[0]  # tables of further fields follow


def calibrated(service):
    """A file of this host's unchanged description."""
    return _file(service, "calibrated", _host(service))


def doubtful(service):
    """A file of it in which no cost decides a choice."""
    return _file(service, "doubtful", _host(service) + DOUBTFUL_GAINS)


def miscalibrated(service):
    """A file of it with the wrong costs."""
    smaller = re.sub(r"capacity_bytes: (\d+)", lambda found: f"capacity_bytes: {int(found.group(1)) // 16}", _host(service))
    return _file(service, "miscalibrated", smaller + WRONG_PRICES)
