"""Images with ranges of height and width: detectors, networks that halve and double sizes, recognizers. Each size gives
ONNX Runtime's results, whatever larger runs have left in memory, and costs about its share of the largest size."""

import numpy as np
from onnx import TensorProto, helper

from checks import check
from e2e.ranged import f32s, ranged_against_oracle, same, save, tessera


def test_images_of_any_size(service, oracle):
    """Random convolutional networks on images with ranges of height and width."""
    node, f32 = helper.make_node, TensorProto.FLOAT
    for seed in range(4):
        random = np.random.default_rng(seed)
        nodes, constants, x, channels = [], [], "x", 3
        for layer in range(int(random.integers(2, 5))):
            out = int(random.choice([4, 7, 16]))
            kernel, stride = int(random.choice([1, 3, 5])), int(random.choice([1, 2]))
            constants.append((f"w{layer}", (random.standard_normal((out, channels, kernel, kernel)) / (kernel * channels)).astype(np.float32)))
            constants.append((f"b{layer}", random.standard_normal(out).astype(np.float32)))
            pad = kernel // 2 if random.random() < 0.8 else 0
            nodes.append(node("Conv", [x, f"w{layer}", f"b{layer}"], [f"c{layer}"], strides=[stride, stride], pads=[pad] * 4))
            nodes.append(node("Relu", [f"c{layer}"], [f"r{layer}"]))
            x, channels = f"r{layer}", out
            if layer == 0:
                nodes.append(node("MaxPool", [x], ["pooled"], kernel_shape=[3, 3], strides=[1, 2], pads=[1, 1, 1, 1]))
                x = "pooled"
        constants.append(("scales", np.array([1, 1, 2, 2], np.float32)))
        nodes += [node("Resize", [x, "", "scales"], ["up"], mode="nearest"), node("GlobalAveragePool", [x], ["g"]),
                  node("Flatten", ["g"], ["y"]), node("Sigmoid", ["up"], ["z"])]
        path = save(service, nodes, [("x", f32, ["n", 3, "h", "w"])], [("y", f32, None), ("z", f32, None)], constants)
        sizes = [(1, 32, 48), (2, 33, 47), (2, 29, 24), (1, 48, 31), (2, 41, 25)]
        ranged_against_oracle(service, oracle, path, {"n": "1..2", "h": "32..48", "w": "24..48"}, sizes,
                              lambda n, h, w: {"x": f32s(random, n, 3, h, w)}, f"images {seed}", threads=("2",))


def test_images_sampled(service, oracle):
    """Samples at grids of any size in images of any size, in all modes."""
    f32, random = TensorProto.FLOAT, np.random.default_rng(21)
    modes = [(mode, padding, corners) for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")
             for corners in (0, 1)]
    nodes = [helper.make_node("Conv", ["x", "c"], ["a"], pads=[1, 1, 1, 1])] + [
        helper.make_node("GridSample", ["a", "grid"], [f"{mode}_{padding}_{corners}"], mode=mode, padding_mode=padding, align_corners=corners)
        for mode, padding, corners in modes]
    path = save(service, nodes, [("x", f32, [1, 3, "h", "w"]), ("grid", f32, [1, "p", "q", 2])],
                [(f"{mode}_{padding}_{corners}", f32, None) for mode, padding, corners in modes],
                [("c", random.standard_normal((4, 3, 3, 3)).astype(np.float32))], opset=16)
    ranged_against_oracle(service, oracle, path, {"h": "..20", "w": "..13", "p": "..5", "q": "..7"},
                          [(20, 13, 5, 7), (11, 5, 3, 2), (2, 13, 1, 7), (19, 3, 5, 1)],
                          lambda h, w, p, q: {"x": f32s(random, 1, 3, h, w), "grid": f32s(random, 1, p, q, 2)}, "sampled images", threads=("2",))


def test_images_resized(service, oracle):
    """Resizes to the size of another image, by a scale, to a constant size, and back from a size that a stride has
    rounded up; padding that repeats edge elements."""
    node, f32, random = helper.make_node, TensorProto.FLOAT, np.random.default_rng(12)
    w = lambda *shape: random.standard_normal(shape).astype(np.float32) / 2  # noqa: E731
    nodes = [node("Conv", ["x", "c"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]), node("GlobalAveragePool", ["a"], ["g"]), node("Shape", ["x"], ["s"]),
             node("Slice", ["s", "from", "to"], ["hw"]), node("Concat", ["front", "hw"], ["size"], axis=0),
             node("Shape", ["a"], ["t"])]
    outputs = []
    for mode in ("nearest", "linear"):
        for place in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            name = f"{mode}_{place}"
            how = {"mode": mode, "coordinate_transformation_mode": place, **({"nearest_mode": "floor"} if mode == "nearest" else {})}
            nodes += [node("Resize", ["a", "", "", "size"], [f"up_{name}"], **how)]
            outputs.append(f"up_{name}")
    nodes += [node("Resize", ["a", "", "two"], ["twice"], mode="linear"), node("Resize", ["a", "", "less"], ["less_y"], mode="nearest"),
              node("Resize", ["a", "", "", "fixed"], ["same_size"], mode="linear"), node("Resize", ["g", "", "", "t"], ["spread"], mode="linear"),
              node("Pad", ["x", "pads"], ["mirrored"], mode="reflect"), node("Pad", ["x", "pads"], ["edge"], mode="edge")]
    outputs += ["twice", "less_y", "same_size", "spread", "mirrored", "edge"]
    path = save(service, nodes, [("x", f32, [1, 3, "h", "w"])], [(name, f32, None) for name in outputs],
                [("c", w(4, 3, 3, 3)), ("front", np.array([1, 4])), ("from", np.array([2])), ("to", np.array([4])),
                 ("two", np.array([1, 1, 2, 2], np.float32)), ("less", np.array([1, 1, 0.6, 1], np.float32)), ("fixed", np.array([1, 4, 9, 7])),
                 ("pads", np.array([0, 0, 2, 1, 0, 0, 1, 2]))])
    ranged_against_oracle(service, oracle, path, {"h": "6..20", "w": "..17"}, [(6, 17), (20, 5), (13, 8), (11, 16)],
                          lambda h, w: {"x": f32s(random, 1, 3, h, w)}, "resized images", threads=("2",))


def network(random):
    """Tools to write networks: (nodes, constants, op(kind, inputs, **attributes), const(array), conv)."""
    nodes, constants = [], []

    def const(array):
        constants.append((f"c{len(constants)}", np.asarray(array)))
        return constants[-1][0]

    def op(kind, inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def conv(x, channels, filters, kernel, **attributes):
        weights = random.standard_normal((filters, channels, kernel, kernel)) / (kernel * np.sqrt(channels))
        if "auto_pad" not in attributes:
            attributes["pads"] = [kernel // 2] * 4
        return op("Conv", [x, const(weights.astype(np.float32))], **attributes)

    return nodes, constants, op, const, conv


def halving_and_doubling(service, random):
    """A U-Net as PyTorch exports it: padded by the row or column that halving an odd size loses, group normalization by
    Reshape and InstanceNormalization, attention over all pixels of its coarsest image."""
    nodes, constants, op, const, conv = network(random)

    def grouped(x, channels, groups):
        one = const(np.ones(groups, np.float32)), const(np.zeros(groups, np.float32))
        normal = op("InstanceNormalization", [op("Reshape", [x, const([0, groups, -1])]), *one])
        gain = const(random.standard_normal((channels, 1, 1)).astype(np.float32))
        return op("Relu", [op("Mul", [op("Reshape", [normal, op("Shape", [x])]), gain])])

    fine = grouped(conv("x", 3, 8, 3), 8, 2)
    middle = grouped(conv(op("MaxPool", [fine], kernel_shape=[2, 2], strides=[2, 2]), 8, 8, 3), 8, 4)
    x = conv(op("MaxPool", [middle], kernel_shape=[2, 2], strides=[2, 2]), 8, 8, 3)
    pixels = op("Transpose", [op("Reshape", [x, const([0, 8, -1])])], perm=[0, 2, 1])
    scores = op("Softmax", [op("MatMul", [pixels, op("Transpose", [pixels], perm=[0, 2, 1])])], axis=-1)
    mixed = op("Transpose", [op("MatMul", [scores, pixels])], perm=[0, 2, 1])
    x = op("Add", [x, op("Reshape", [mixed, op("Shape", [x])])])
    for skip in (middle, fine):
        x = op("ConvTranspose", [x, const((random.standard_normal((8, 8, 2, 2)) / 4).astype(np.float32))], strides=[2, 2])
        lost = op("Slice", [op("Sub", [op("Shape", [skip]), op("Shape", [x])]), const([2]), const([4])])
        front = op("Div", [lost, const([2, 2])])
        none = const([0, 0])
        x = op("Pad", [x, op("Concat", [none, front, none, op("Sub", [lost, front])], axis=0)])
        x = op("Relu", [conv(op("Concat", [skip, x], axis=1), 16, 8, 3)])
    nodes.append(helper.make_node("Identity", [x], ["y"]))
    return save(service, nodes, [("x", TensorProto.FLOAT, [1, 3, "h", "w"])], [("y", TensorProto.FLOAT, None)], constants)


def test_networks_that_halve_and_double(service, oracle):
    path = halving_and_doubling(service, random := np.random.default_rng(21))
    ranged_against_oracle(service, oracle, path, {"h": "..24", "w": "..37"}, [(24, 37), (5, 4), (11, 23), (13, 8), (4, 31)],
                          lambda h, w: {"x": f32s(random, 1, 3, h, w)}, "a network that halves and doubles", threads=("2",))


def refused_everywhere(service, artifact, dims, words):
    """For all ways to run an artifact; `words` are in each error."""
    path, artifact_id = artifact
    sizes = [word for name, size in dims.items() for word in ("--dim", f"{name}={size}")]
    model = tessera.load(path)
    said = [service.cli("run", path, "--random", *sizes, expect=3).err]
    said.append(service.cli("run", path, "--random", *sizes, "--sandbox", expect=3).err)
    room = min((each for each in model.variants if all(size <= -each.dimensions[name] for name, size in dims.items())),
               key=lambda each: abs(np.prod(list(each.dimensions.values()))))
    arrays = {tensor.name: np.zeros(tensor.shape, np.float32) for tensor in room.inputs if tensor.name not in dims}
    given = service.scratch("in.npz")
    np.savez(given, **arrays, **{name: np.array(size) for name, size in dims.items()})
    said.append(service.cli("execute", artifact_id, "--input", given, "--output-dir", service.scratch("out"), expect=None).err)
    arrays = {name: array[tuple(slice(dims.get(axis)) for axis in ("n", "c", "h", "w"))] for name, array in arrays.items()}
    try:
        model.session(1).run(arrays)
        said.append("nothing")
    except tessera.errors.InvalidInput as error:
        said.append(str(error))
    for one in said:
        check(all(word in one for word in words), f"{words} are not all in: {one}")


def test_images_below_a_window(service, oracle):
    """A run whose image is smaller than a window inside the network is rejected with the node and the next size that
    works, like a model compiled for that size. Empty images, and sizes that work, are accepted."""
    path = halving_and_doubling(service, random := np.random.default_rng(24))
    compiled = service.compile(path, None, "--dim", "h=..24", "--dim", "w=..37", timeout=300)
    artifact = compiled.artifact, compiled.job["compile_result"]["artifact_id"]
    refused_everywhere(service, artifact, {"h": 3, "w": 12},
                       ("dimension 'h' is 3", "(MaxPool): the window of 2 is larger than spatial dimension 0, which is 1 long",
                        "the next size that works is 4"))
    refused_everywhere(service, artifact, {"h": 9, "w": 1}, ("dimension 'w' is 1", "spatial dimension 1", "next size that works is 4"))
    exact = service.cli("compile", path, "--target", "host", "--dim", "h=3", "--dim", "w=12", "--json", expect=3).failure
    check("the window of 2 is larger than spatial dimension 0, which is 1 long" in exact["message"], exact["message"])
    session = oracle.load(path)
    arrays = {"x": f32s(random, 1, 3, 4, 4)}
    same(service.run(artifact[0], arrays)[0], session.run(arrays)[0], "the least image that works")
    session.close()


def test_windows_that_are_not_padded(service, oracle):
    """Windowed attention on images whose sizes must be multiples of the window: the Reshape rejects others."""
    nodes, constants, op, const, conv = network(random := np.random.default_rng(25))
    x = op("Transpose", [conv("x", 3, 8, 4, strides=[4, 4], auto_pad="VALID")], perm=[0, 2, 3, 1])
    shape = op("Shape", [x])
    height, width = (op("Slice", [shape, const([d]), const([d + 1])]) for d in (1, 2))
    rows, columns = op("Div", [height, const([3])]), op("Div", [width, const([3])])
    x = op("Reshape", [x, op("Concat", [const([-1]), rows, const([3]), columns, const([3]), const([8])], axis=0)])
    x = op("Reshape", [op("Transpose", [x], perm=[0, 1, 3, 2, 4, 5]), const([-1, 9, 8])])
    scores = op("Softmax", [op("MatMul", [x, op("Transpose", [x], perm=[0, 2, 1])])], axis=-1)
    x = op("Reshape", [op("MatMul", [scores, x]), op("Concat", [const([1]), rows, columns, const([3]), const([3]), const([8])], axis=0)])
    x = op("Reshape", [op("Transpose", [x], perm=[0, 1, 3, 2, 4, 5]), op("Concat", [const([1]), height, width, const([8])], axis=0)])
    nodes.append(helper.make_node("Transpose", [x], ["y"], perm=[0, 3, 1, 2]))
    path = save(service, nodes, [("x", TensorProto.FLOAT, [1, 3, "h", "w"])], [("y", TensorProto.FLOAT, None)], constants)
    ranged_against_oracle(service, oracle, path, {"h": "12..60", "w": "..48"}, [(12, 12), (24, 48), (36, 24), (60, 48)],
                          lambda h, w: {"x": f32s(random, 1, 3, h, w)}, "windows that are not padded", threads=("2",))
    compiled = service.compile(path, None, "--dim", "h=12..60", "--dim", "w=..48", timeout=300)
    refused_everywhere(service, (compiled.artifact, compiled.job["compile_result"]["artifact_id"]), {"h": 36, "w": 20},
                       ("dimension 'w' is 20", "(Reshape): the elements make up the new shape for no sizes but multiples of 12",
                        "the next size that works is 24"))


def test_detectors(service, oracle):
    """Strides padded as in TensorFlow, pools rounded up; boxes of three scales flattened and joined, and the best of them."""
    nodes, constants, op, const, conv = network(random := np.random.default_rng(22))
    x, boxes = op("Relu", [conv("x", 3, 8, 3, strides=[2, 2], auto_pad="SAME_UPPER")]), []
    for scale in range(3):
        if scale == 1:
            x = op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        if scale == 2:
            x = op("Relu", [conv(x, 8, 8, 3, strides=[2, 2], auto_pad="SAME_LOWER")])
        head = op("Transpose", [conv(x, 8, 10, 1 + 2 * (scale % 2))], perm=[0, 2, 3, 1])
        boxes.append(op("Reshape", [head, const([0, -1, 5])]))
    joined = op("Concat", boxes, axis=1)
    best = op("ReduceMax", [joined], axes=[2], keepdims=0)
    count = op("Min", [op("Slice", [op("Shape", [best]), const([1]), const([2])]), const([20])])
    nodes += [helper.make_node("TopK", [best, count], ["top", "places"], axis=1), helper.make_node("ArgMax", [joined], ["first"], axis=1),
              helper.make_node("Identity", [joined], ["all"])]
    path = save(service, nodes, [("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
                [("all", TensorProto.FLOAT, None), ("top", TensorProto.FLOAT, None), ("places", TensorProto.INT64, None),
                 ("first", TensorProto.INT64, None)], constants)
    ranged_against_oracle(service, oracle, path, {"n": "2", "h": "..32", "w": "..27"}, [(32, 27), (1, 1), (3, 2), (17, 16), (31, 5)],
                          lambda h, w: {"x": f32s(random, 2, 3, h, w)}, "a detector", threads=("2",))


def test_work_follows_the_size(service):
    """A small image in the variant for large ones costs about its share of rows: windows, strides, pools and doubled
    sizes included. Tested for one target, because tiles depend on its cores and lanes."""
    nodes, constants, op, const, conv = network(np.random.default_rng(23))
    x = op("Relu", [conv("x", 3, 16, 3)])
    x = op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = op("Relu", [conv(op("Relu", [conv(x, 16, 32, 3)]), 32, 32, 3, strides=[2, 2])])
    x = op("Resize", [x, "", const(np.array([1, 1, 2, 2], np.float32))], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    nodes.append(helper.make_node("Conv", [x, const(np.ones((4, 32, 3, 3), np.float32))], ["y"], pads=[1, 1, 1, 1]))
    path = save(service, nodes, [("x", TensorProto.FLOAT, [1, 3, "h", "w"])], [("y", TensorProto.FLOAT, None)], constants)
    artifact = service.compile(path, None, "--dim", "h=..128", "--dim", "w=..160", target="x86-64-v3", timeout=300).artifact
    for size, most in (((128, 160), 1), ((32, 160), 0.5), ((32, 40), 0.45)):
        _, said = service.run(artifact, {"x": np.ones((1, 3, *size), np.float32)})
        check(said["work"] <= most, f"{size} of (128, 160): {said['work']:.2f} of the operations, at most {most}")


def encoder_of_pixels(service, random):
    """An image cut into patches in one dimension, after a class token: positions resized to the image, two attention
    blocks, the token, and the patches as an image again."""
    nodes, constants, op, const, conv = network(random)
    w = lambda *shape: const((random.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32))  # noqa: E731
    x = conv("x", 3, 16, 4, strides=[4, 4], auto_pad="VALID")
    part = lambda first, count: op("Slice", [op("Shape", [x]), const([first]), const([first + count])])  # noqa: E731
    n, size = part(0, 1), part(2, 2)
    rows = lambda image, count: op("Transpose", [op("Reshape", [image, op("Concat", [count, const([16, -1])], axis=0)])], perm=[0, 2, 1])  # noqa: E731
    places = rows(op("Resize", [w(1, 16, 5, 6), "", "", op("Concat", [const([1, 16]), size], axis=0)], mode="linear"), const([1]))
    token = op("Expand", [w(1, 1, 16), op("Concat", [n, const([1, 16])], axis=0)])
    t = op("Concat", [token, op("Add", [rows(x, n), places])], axis=1)
    length = op("Slice", [op("Shape", [t]), const([1]), const([2])])
    split, merged = (op("Concat", [n, length, const(end)], axis=0) for end in ([2, 8], [16]))
    for _ in range(2):
        q, k, v = (op("Transpose", [op("Reshape", [op("MatMul", [t, w(16, 16)]), split])], perm=[0, 2, 1, 3]) for _ in range(3))
        scores = op("Softmax", [op("MatMul", [q, op("Transpose", [k], perm=[0, 1, 3, 2])])], axis=-1)
        mixed = op("Transpose", [op("MatMul", [scores, v])], perm=[0, 2, 1, 3])
        t = op("Add", [t, op("Reshape", [mixed, merged])])
        t = op("Add", [t, op("MatMul", [op("Relu", [op("MatMul", [t, w(16, 32)])]), w(32, 16)])])
    nodes.append(helper.make_node("Gather", [t, const(np.array(0))], ["token"], axis=1))
    patches = op("Transpose", [op("Slice", [t, const([1]), const([2**62]), const([1])])], perm=[0, 2, 1])
    nodes.append(helper.make_node("Reshape", [patches, op("Concat", [n, const([16]), size], axis=0)], ["image"]))
    return save(service, nodes, [("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
                [(name, TensorProto.FLOAT, None) for name in ("token", "image")], constants)


def test_encoders_of_pixels(service, oracle):
    """Height times width in one dimension; a small image costs about its share of pixels, in products and as attention queries."""
    path = encoder_of_pixels(service, random := np.random.default_rng(26))
    ranged_against_oracle(service, oracle, path, {"n": "..2", "h": "..40", "w": "..52"},
                          [(2, 40, 52), (1, 4, 4), (2, 23, 37), (1, 40, 8), (2, 5, 51)],
                          lambda n, h, w: {"x": f32s(random, n, 3, h, w)}, "an encoder of pixels", threads=("2",))
    artifact = service.compile(path, None, "--dim", "n=1", "--dim", "h=..128", "--dim", "w=..160", target="x86-64-v3", timeout=300).artifact
    for size, most in (((128, 160), 1), ((64, 80), 0.4), ((32, 160), 0.4), ((128, 16), 0.3)):
        _, said = service.run(artifact, {"x": np.ones((1, 3, *size), np.float32)})
        check(said["work"] <= most, f"{size} of (128, 160): {said['work']:.2f} of the operations, at most {most}")
