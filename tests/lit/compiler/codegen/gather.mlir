// What the vector emitter does not cover says so.
// RUN: tessera-opt %s --tessera-emit | FileCheck %s
// CHECK: func.func @gather_p0(
// CHECK-SAME: tessera.strategy = "scalar-loops"

func.func @gather(%table: tensor<9x20xf32>, %which: tensor<4xi64>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<4x20xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%which : tensor<4xi64>) outs(%e : tensor<4x20xf32>) {
    ^bb0(%w: i64, %o: f32):
      %i = arith.index_cast %w : i64 to index
      %j = linalg.index 1 : index
      %v = tensor.extract %table[%i, %j] : tensor<9x20xf32>
      linalg.yield %v : f32
  } -> tensor<4x20xf32>
  return %r : tensor<4x20xf32>
}
