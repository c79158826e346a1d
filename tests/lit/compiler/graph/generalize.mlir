// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops | FileCheck %s

// CHECK-LABEL: @product
// CHECK: linalg.generic
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-NOT: linalg.matmul
func.func @product(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %o: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %r = linalg.matmul ins(%x, %y : tensor<2x3xf32>, tensor<3x4xf32>) outs(%o : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// A fill stays, because it marks the start of a reduction.
// CHECK-LABEL: @fill
// CHECK: linalg.fill
// CHECK-NOT: linalg.generic
func.func @fill(%z: f32) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<2x4xf32>
  %r = linalg.fill ins(%z : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
