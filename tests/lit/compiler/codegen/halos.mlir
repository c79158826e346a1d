// Sums of windows of three rows, in consecutive slices: the intermediate is computed once within a part.
// RUN: tessera-opt %s --tessera-emit="slices=d0/12,d0/4" | FileCheck %s

#shifted = affine_map<(d0, d1, d2) -> (d0 + d2, d1)>
#weights = affine_map<(d0, d1, d2) -> (d2)>
#rows = affine_map<(d0, d1, d2) -> (d0, d1)>

// Two parts of three slices. A slice that does not begin a part moves two rows down before it writes its four new ones.
// CHECK: func.func private @window_p0_body(
// CHECK: %[[PLACE:.*]] = arith.remui
// CHECK: arith.cmpi eq, %[[PLACE]]
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<
// CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : vector<
// CHECK: tessera.grid = 2 : i64
// CHECK-SAME: 6 slices of 4x16
// CHECK-SAME: halos kept in 2 parts of 3 slices
func.func @window(%x: tensor<26x16xf32>, %w: tensor<3xf32>) -> tensor<24x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<26x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<26x16xf32>) outs(%e0 : tensor<26x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    linalg.yield %e : f32
  } -> tensor<26x16xf32>
  %e1 = tensor.empty() : tensor<24x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<24x16xf32>) -> tensor<24x16xf32>
  %z = linalg.generic {indexing_maps = [#shifted, #weights, #rows],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%y, %w : tensor<26x16xf32>, tensor<3xf32>) outs(%f : tensor<24x16xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x16xf32>
  return %z : tensor<24x16xf32>
}
