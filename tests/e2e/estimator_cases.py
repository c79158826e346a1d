"""Estimators of ai.onnx.ml for the operator suite: random tree ensembles and their surrounding nodes."""

import numpy as np
from onnx import numpy_helper

DOMAIN = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
random = np.random.default_rng(42)


def numbers(count):
    """Floats that f32 holds exactly, as attributes do."""
    return [float(value) for value in random.normal(size=count).astype(np.float32)]


def trees(count, depth, features, modes=MODES[:1], missing=False):
    """Attributes of random trees whose splits are small integers, and the (tree, node) of each leaf."""
    nodes, leaves = [], []
    for tree in range(count):
        def grow(levels, rows, tree=tree):
            at = len(rows)
            rows.append(None)
            if levels == 0 or (at and random.random() < 0.2):
                rows[at] = (0, 0.0, "LEAF", 0, 0, 0)
                leaves.append((tree, at))
                return at
            mode, feature = modes[random.integers(len(modes))], int(random.integers(features))
            split, track = float(random.integers(-3, 4)), int(missing and random.random() < 0.5)
            rows[at] = (feature, split, mode, grow(levels - 1, rows), grow(levels - 1, rows), track)
            return at
        rows = []
        grow(depth, rows)
        nodes += [(tree, number, *row) for number, row in enumerate(rows)]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    return {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes))}, leaves


def votes(leaves, prefix, targets):
    """Weights of leaves: `targets` for each leaf."""
    rows = [(tree, node, target) for tree, node in leaves for target in targets()]
    columns = {f"{prefix}_{name}": list(column) for name, column in zip(("treeids", "nodeids", "ids"), zip(*rows))}
    return {**columns, f"{prefix}_weights": numbers(len(rows))}


def features(rows, columns, missing=False, dtype=np.float32):
    values = random.integers(-4, 5, (rows, columns)).astype(dtype)
    if missing:
        values[random.random(values.shape) < 0.2] = np.nan
    return values


def membership():
    """TreeEnsemble of version 5: x0 in {1, 2, 4} ? leaf 0 : (x1 <= 0 ? leaf 1 : leaf 2)"""
    def tensor(values, dtype=np.float32):
        return numpy_helper.from_array(np.array(values, dtype))
    return {"n_targets": 2, "tree_roots": [0], "nodes_featureids": [0, 1], "nodes_modes": tensor([6, 0], np.uint8),
            "nodes_splits": tensor([0, 0]), "nodes_truenodeids": [0, 1], "nodes_trueleafs": [1, 1],
            "nodes_falsenodeids": [1, 2], "nodes_falseleafs": [0, 1], "leaf_targetids": [0, 1, 0],
            "leaf_weights": tensor([1.5, -2.5, 3.5]), "membership_values": tensor([1, 2, 4, np.nan])}


def estimator_cases(one):
    """`one`: the suite's function that makes a case of one node."""
    def case(op, x, outputs=("y",), version=3, **attributes):
        return one(op, {"x": x}, outputs=outputs, domain=DOMAIN, domain_version=version, **attributes)
    for rows, count, depth in ((1, 7, 3), (37, 31, 8)):
        nodes, leaves = trees(count, depth, 5)
        yield f"trees {rows} rows", case("TreeEnsembleRegressor", features(rows, 5), n_targets=1, **nodes,
                                         **votes(leaves, "target", lambda: [0]))
    for function in ("SUM", "AVERAGE", "MIN", "MAX"):
        nodes, leaves = trees(11, 5, 4, MODES, missing=True)
        yield f"trees of all modes, {function}", case(
            "TreeEnsembleRegressor", features(53, 4, missing=True), n_targets=3, aggregate_function=function,
            **nodes, **votes(leaves, "target", lambda: [int(random.integers(3))]))
        # Each row has weights for each target; without them ONNX Runtime omits the base value.
        nodes, leaves = trees(11, 3, 4)
        yield f"trees with base values, {function}", case(
            "TreeEnsembleRegressor", features(19, 4), n_targets=3, aggregate_function=function,
            base_values=[0.5, 1.0, -1.0], **nodes, **votes(leaves, "target", lambda: range(3)))
    # Boosted trees of several classes: each tree has weights for one of them.
    nodes, leaves = trees(12, 4, 4)
    yield "trees of one class each", case(
        "TreeEnsembleClassifier", features(29, 4), ("label", "y"), classlabels_int64s=[0, 1, 2], post_transform="SOFTMAX",
        **nodes, class_treeids=[tree for tree, _ in leaves], class_nodeids=[node for _, node in leaves],
        class_ids=[tree % 3 for tree, _ in leaves], class_weights=numbers(len(leaves)))
    for transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO", "LOGISTIC", "PROBIT"):
        nodes, leaves = trees(9, 4, 4)
        yield f"classes of trees, {transform}", case(
            "TreeEnsembleClassifier", features(29, 4), ("label", "y"), classlabels_int64s=[4, -9, 2],
            post_transform=transform, **nodes, **votes(leaves, "class", lambda: range(3)))
    for transform in ("NONE", "LOGISTIC"):
        nodes, leaves = trees(9, 4, 4)
        yield f"two classes by one score, {transform}", case(
            "TreeEnsembleClassifier", features(29, 4), ("label", "y"), classlabels_int64s=[5, 6], post_transform=transform,
            base_values=[0.25], **nodes, **votes(leaves, "class", lambda: [0]))
    yield "trees with sets", case("TreeEnsemble", features(31, 2), version=5, **membership())
    x = random.normal(size=(7, 3)).astype(np.float32)
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        yield f"linear classes {transform}", case("LinearClassifier", x, ("label", "y"), 1, coefficients=numbers(9),
                                                  intercepts=numbers(3), classlabels_ints=[3, 1, 2], post_transform=transform)
    yield "two linear classes", case("LinearClassifier", x, ("label", "y"), 1, coefficients=numbers(3), intercepts=[0.1],
                                     classlabels_ints=[3, 1], post_transform="LOGISTIC")
    yield "linear", case("LinearRegressor", x, version=1, coefficients=numbers(6), intercepts=numbers(2), targets=2)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        yield f"support vectors {kernel}", case(
            "SVMRegressor", x, version=1, kernel_type=kernel, kernel_params=[0.1, 0.2, 3.0], n_supports=5, rho=[0.3],
            coefficients=numbers(5), support_vectors=numbers(15))
    for norm in ("MAX", "L1", "L2"):
        yield f"norm {norm}", case("Normalizer", x, version=1, norm=norm)
    yield "scaler", case("Scaler", x, version=1, offset=numbers(3), scale=numbers(3))
    yield "binarizer", case("Binarizer", x, version=1, threshold=0.2)
    yield "imputer", case("Imputer", features(11, 3, missing=True), version=1, imputed_value_floats=numbers(3),
                          replaced_value_float=float("nan"))
    yield "imputer of integers", case("Imputer", features(11, 3, dtype=np.int64), version=1, imputed_value_int64s=[7],
                                      replaced_value_int64=2)
    yield "label encoder", case("LabelEncoder", features(11, 3, dtype=np.int64), version=2, keys_int64s=[3, -1, 0, 2],
                                values_floats=numbers(4), default_float=0.5)
    yield "label encoder of floats", case("LabelEncoder", features(11, 3), version=2, keys_floats=[3.0, -1.0, 0.0, 2.0, 4.0],
                                          values_int64s=[1, 2, 3, 4, 5])
    yield "one-hot encoder", case("OneHotEncoder", features(5, 2, dtype=np.int64), version=1, cats_int64s=[-1, 3, 2])
    yield "feature extractor", one("ArrayFeatureExtractor", {"x": x}, domain=DOMAIN, domain_version=1,
                                   constants={"i": np.array([2, 0, 2])})
    yield "feature vectorizer", one("FeatureVectorizer", {"a": x, "b": features(7, 2)}, domain=DOMAIN, domain_version=1,
                                    inputdimensions=[3, 2])
