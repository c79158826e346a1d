// Causal attention as the product compiles it: in slices of rows, with whole rows of keys or in blocks of keys with a
// running maximum and sum.
// RUN: tessera-opt %s --tessera-emit="slices=d0/16" | FileCheck %s --check-prefix=ROWS
// RUN: tessera-opt %s --tessera-emit="slices=d0/16,r0/16" | FileCheck %s --check-prefix=BLOCKS

// ROWS: tessera.workspace_bytes = 0
// ROWS-NOT: @attention_p1_body
// ROWS: tessera.grid = 8 : i64, tessera.strategy = "region of {{[0-9]+}} nests, 8 slices of 16x16, 25 % of the keys masked

// Key blocks after the rows of a slice are skipped.
// BLOCKS: func.func private @attention_p0_body(
// BLOCKS: scf.if
// BLOCKS: tessera.strategy = "region of {{[0-9]+}} nests, 8 slices of 16x16 in 8 blocks of r0, 44 % of the keys masked
#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
func.func @attention(%q: tensor<128x16xf32>, %k: tensor<16x128xf32>, %v: tensor<128x16xf32>) -> tensor<128x16xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<128x128xf32>
  %r = tensor.empty() : tensor<128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x128xf32>) -> tensor<128x128xf32>
  %p = linalg.matmul ins(%q, %k : tensor<128x16xf32>, tensor<16x128xf32>) outs(%f : tensor<128x128xf32>) -> tensor<128x128xf32>
  %s = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<128x128xf32>) outs(%e : tensor<128x128xf32>) {
    ^bb0(%x: f32, %o: f32):
      %row = linalg.index 0 : index
      %column = linalg.index 1 : index
      %seen = arith.cmpi ule, %column, %row : index
      %y = arith.select %seen, %x, %low : f32
      linalg.yield %y : f32
  } -> tensor<128x128xf32>
  %lows = linalg.fill ins(%low : f32) outs(%r : tensor<128xf32>) -> tensor<128xf32>
  %m = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<128x128xf32>) outs(%lows : tensor<128xf32>) {
    ^bb0(%x: f32, %o: f32):
      %y = arith.maximumf %x, %o : f32
      linalg.yield %y : f32
  } -> tensor<128xf32>
  %x = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%s, %m : tensor<128x128xf32>, tensor<128xf32>) outs(%e : tensor<128x128xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      %y = math.exp %d : f32
      linalg.yield %y : f32
  } -> tensor<128x128xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%r : tensor<128xf32>) -> tensor<128xf32>
  %t = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<128x128xf32>) outs(%zeros : tensor<128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %y = arith.addf %a, %o : f32
      linalg.yield %y : f32
  } -> tensor<128xf32>
  %w = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<128x128xf32>, tensor<128xf32>) outs(%e : tensor<128x128xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %y = arith.divf %a, %b : f32
      linalg.yield %y : f32
  } -> tensor<128x128xf32>
  %g = tensor.empty() : tensor<128x16xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<128x16xf32>) -> tensor<128x16xf32>
  %z = linalg.matmul ins(%w, %v : tensor<128x128xf32>, tensor<128x16xf32>) outs(%h : tensor<128x16xf32>) -> tensor<128x16xf32>
  return %z : tensor<128x16xf32>
}
