// RUN: tessera-opt %s -split-input-file -tessera-align-slices | FileCheck %s

#id = affine_map<(n, y, x, c) -> (n, y, x, c)>

// A stage computes its result in blocks of four rows: the border above grows from one row to four, and the reader takes what it
// had from inside.
// CHECK-LABEL: @grown
// CHECK: %[[P:.*]] = tensor.pad %{{.*}} low[0, 4, 1, 0] high[0, 1, 1, 0]
// CHECK: tensor<1x8x8x16xf32> to tensor<1x13x10x16xf32>
// CHECK: tensor.extract_slice %[[P]][0, 3, 0, 0] [1, 10, 10, 16] [1, 1, 1, 1]
func.func @grown(%x: tensor<1x8x8x16xf32>) -> tensor<1x10x10x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x8x16xf32>) outs(%e : tensor<1x8x8x16xf32>)
      attrs = {tessera.stage_of = 0 : i64, tessera.slice_rows = 8 : i64, tessera.block_rows = 4 : i64} {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x8x16xf32>
  %p = tensor.pad %s low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %y: index, %w: index, %c: index):
    tensor.yield %z : f32
  } : tensor<1x8x8x16xf32> to tensor<1x10x10x16xf32>
  return %p : tensor<1x10x10x16xf32>
}

// -----

#id = affine_map<(n, y, x, c) -> (n, y, x, c)>

// A producer without slices leaves the padding as it is.
// CHECK-LABEL: @no_slices
// CHECK: tensor.pad %{{.*}} low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK-NOT: tensor.extract_slice
func.func @no_slices(%x: tensor<1x8x8x16xf32>) -> tensor<1x10x10x16xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %y: index, %w: index, %c: index):
    tensor.yield %z : f32
  } : tensor<1x8x8x16xf32> to tensor<1x10x10x16xf32>
  return %p : tensor<1x10x10x16xf32>
}
