"""two_waists.py OPERANDS: one body in two parts, each with many live values. One value and the operands cross from part to part."""

import sys

width = int(sys.argv[1])
each = range(width)
tensor = "tensor<7x13xf32>"
print("#id = affine_map<(i, j) -> (i, j)>")
print(f"func.func @body({', '.join(f'%x{i}: {tensor}' for i in each)}) -> {tensor} {{\n  %e = tensor.empty() : {tensor}")
print(f"  %r = linalg.generic {{indexing_maps = [{'#id, ' * width}#id], iterator_types = [\"parallel\", \"parallel\"]}} "
      f"ins({', '.join(f'%x{i}' for i in each)} : {', '.join([tensor] * width)}) outs(%e : {tensor}) {{")
print(f"  ^bb0({', '.join(f'%a{i}: f32' for i in each)}, %o: f32):\n    %last = arith.constant 1.5 : f32")
left = "%last"
for part in ("p", "q"):
    for i in each:
        print(f"    %{part}v{i} = arith.mulf %a{i}, {left} : f32")
    total = f"%{part}v0"
    for i in each[1:]:
        print(f"    %{part}s{i} = arith.addf {total}, %{part}v{i} : f32")
        total = f"%{part}s{i}"
    left = total
    for i in each:
        print(f"    %{part}m{i} = arith.maximumf %{part}v{i}, {total} : f32\n"
              f"    %{part}t{i} = arith.addf {left}, %{part}m{i} : f32")
        left = f"%{part}t{i}"
print(f"    linalg.yield {left} : f32\n  }} -> {tensor}\n  return %r : {tensor}\n}}")
