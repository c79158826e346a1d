"""wide_split.py PARTS: a function that reads so many parts of one tensor, two columns each."""

import sys

parts = int(sys.argv[1])
results = ", ".join(["tensor<3x2xf32>"] * parts)
print(f"func.func @split(%x: tensor<3x{2 * parts}xf32>) -> ({results}) {{\n  %e = tensor.empty() : tensor<3x2xf32>")
for part in range(parts):
    print(f"  %s{part} = tensor.extract_slice %x[0, {2 * part}] [3, 2] [1, 1] : tensor<3x{2 * parts}xf32> to tensor<3x2xf32>\n"
          f"  %y{part} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], "
          f'iterator_types = ["parallel", "parallel"]}} ins(%s{part} : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) {{\n'
          "  ^bb0(%v: f32, %o: f32):\n    %r = math.exp %v : f32\n    linalg.yield %r : f32\n  } -> tensor<3x2xf32>")
print("  return " + ", ".join(f"%y{part}" for part in range(parts)) + f" : {results}\n}}")
