"""Images sampled at other coordinates: Resize, Upsample, GridSample, RoiAlign."""

import numpy as np

from fuzz.cases.table import operator

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
               "tf_crop_and_resize")


@operator("Resize", ("f32",) * 5 + ("f64", "f16", "u8", "i8"), (3, 4, 4, 4, 5), since=11)
def resize(c, x):
    if 0 in x.shape:
        return None
    mode = c.pick("nearest", "linear", "cubic") if x.rank == 4 else c.pick("nearest", "linear")
    if x.type in ("u8", "i8"):
        mode = "nearest"
    coordinates = c.pick(*COORDINATES[:4], *(COORDINATES[4:5] if c.opset >= 19 else ()), COORDINATES[5])
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = c.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": c.pick(-0.75, -0.5)} if c.chance(0.5) else {}
        attributes |= {"exclude_outside": c.integer(0, 1)} if c.chance(0.5) else {}
    if c.opset >= 18 and mode != "nearest" and c.chance(0.3) and coordinates != "tf_crop_and_resize":
        attributes["antialias"] = 1
    roi = none = c.constant(np.zeros(0, np.float32)) if c.opset < 13 else ""
    if coordinates == "tf_crop_and_resize":
        low, high = [c.real(0, 0.4) for _ in x.shape[2:]], [c.real(0.6, 1) for _ in x.shape[2:]]
        roi = c.constant(np.asarray([0, 0, *low, 1, 1, *high], np.float32))
        attributes["extrapolation_value"] = float(c.integer(0, 3))
    # Power-of-two factors keep coordinates exact; with others rounding decides which element is nearest.
    factors = [c.pick(1, 1, 2, 0.5, 4) if mode == "nearest" else c.pick(1, 2, 0.5, 1.5, 0.7, 3) for _ in x.shape[2:]]
    if coordinates == "tf_crop_and_resize":  # with scale 1 the oracle copies elements, whatever is cropped
        factors = [2 if factor == 1 else factor for factor in factors]
    if any(int(np.floor(n * f)) < 1 for n, f in zip(x.shape[2:], factors)):
        return None
    if c.chance(0.5):
        scales = c.constant(np.asarray([1, 1, *factors], np.float32))
        return c.node("Resize", x.name, roi, scales, kind=x.type, **attributes)
    sizes = [int(np.floor(n * f)) for n, f in zip(x.shape[2:], factors)]
    if mode == "nearest" and coordinates != "asymmetric" and any(n % s and s % n for n, s in zip(x.shape[2:], sizes)):
        return None
    return c.node("Resize", x.name, roi, none, c.integers([*x.shape[:2], *sizes]), kind=x.type, **attributes)


@operator("Upsample", ("f32", "f32", "u8"), (4,), since=9, until=9)
def upsample(c, x):
    if 0 in x.shape:
        return None
    scales = c.constant(np.asarray([1, 1, c.pick(1, 2, 3), c.pick(1, 2, 4)], np.float32))
    return c.node("Upsample", x.name, scales, kind=x.type, mode=c.pick("nearest", "linear") if x.type == "f32" else "nearest")


@operator("GridSample", ("f32",) * 4 + ("f64",), (4,), since=16)
def grid_sample(c, x):
    if 0 in x.shape:
        return None
    bilinear, bicubic = ("linear", "cubic") if c.opset >= 20 else ("bilinear", "bicubic")
    attributes = {"mode": c.pick(bilinear, bicubic, "nearest"), "padding_mode": c.pick("zeros", "border", "reflection"),
                  "align_corners": c.integer(0, 1)}
    attributes = {key: value for key, value in attributes.items() if c.chance(0.85)}
    reach = c.pick(0.95, 1.2, 2)
    grid = c.operand(x.type, (x.shape[0], c.pick(1, 2, 3, 5), c.pick(1, 2, 4, 7), 2), -reach, reach)
    return c.node("GridSample", x.name, grid, kind=x.type, **attributes)


@operator("RoiAlign", ("f32",) * 3 + ("f64",), (4,), since=10)
def roi_align(c, x):
    """Excludes mode max, in which the oracle takes the largest weighted corner instead of interpolated values, and the
    adaptive number of samples, which is rejected."""
    if 0 in x.shape:
        return None
    count = c.pick(1, 2, 3)
    corner = c.random.uniform(0, 3, size=(count, 2))
    boxes = np.concatenate([corner, corner + c.random.uniform(0.5, 8, size=(count, 2))], axis=1)
    batches = c.operand("i64", (count,), 0, x.shape[0] - 1)
    attributes = {"mode": "avg", "output_height": c.pick(1, 2, 3), "output_width": c.pick(1, 2, 3),
                  "spatial_scale": c.pick(1.0, 0.5, 0.25)}
    attributes = {key: value for key, value in attributes.items() if c.chance(0.8)}
    attributes["sampling_ratio"] = c.pick(1, 2, 3)
    attributes |= {"coordinate_transformation_mode": c.pick("half_pixel", "output_half_pixel")} if c.opset >= 16 else {}
    return c.node("RoiAlign", x.name, c.constant(boxes.astype("f8" if x.type == "f64" else "f4")), batches, kind=x.type,
                  **attributes)


