"""equal_bodies.py COUNT: a function of so many operations x + 1, x + 2, ..., which differ in a constant of their bodies only."""

import sys

count = int(sys.argv[1])
results = ", ".join(["tensor<3xf32>"] * count)
print(f"func.func @sums(%x: tensor<3xf32>) -> ({results}) {{\n  %e = tensor.empty() : tensor<3xf32>")
for n in range(1, count + 1):
    print(f"  %c{n} = arith.constant {n}.0 : f32\n"
          f"  %y{n} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], "
          'iterator_types = ["parallel"]} ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {\n'
          f"  ^bb0(%v: f32, %o: f32):\n    %r = arith.addf %v, %c{n} : f32\n    linalg.yield %r : f32\n  }} -> tensor<3xf32>")
print("  return " + ", ".join(f"%y{n}" for n in range(1, count + 1)) + f" : {results}\n}}")
