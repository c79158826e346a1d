// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-sink-views | FileCheck %s

// The bias reads the product at the product's own points; the view comes last.
// CHECK-LABEL: @behind
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}} ins(%[[P]]{{.*}} : tensor<6x8xf32>
// CHECK: tensor.expand_shape %{{.*}} : tensor<6x8xf32> into tensor<2x3x8xf32>
func.func @behind(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %o = tensor.empty() : tensor<2x3x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %b : tensor<2x3x8xf32>, tensor<8xf32>) outs(%o : tensor<2x3x8xf32>) {
  ^bb0(%p0: f32, %q: f32, %o0: f32):
    %s = arith.addf %p0, %q : f32
    linalg.yield %s : f32
  } -> tensor<2x3x8xf32>
  return %r : tensor<2x3x8xf32>
}

// -----

// A view of an argument does not prevent fusion.
// CHECK-LABEL: @argument
// CHECK: tensor.expand_shape %{{.*}} : tensor<6x8xf32> into tensor<2x3x8xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x3x8xf32>)
func.func @argument(%x: tensor<6x8xf32>) -> tensor<2x3x8xf32> {
  %v = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %o = tensor.empty() : tensor<2x3x8xf32>
  %r = linalg.exp ins(%v : tensor<2x3x8xf32>) outs(%o : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %r : tensor<2x3x8xf32>
}
