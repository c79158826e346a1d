// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-split-sums=cores=8 -canonicalize -cse | FileCheck %s

// The sum of a long vector: a part for each of eight cores, then the sum of the parts.
// CHECK-LABEL: @sum
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0, 1]] output_shape [8, 131072]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<8x131072xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[P]] : tensor<8xf32>)
// CHECK: return %[[Y]] : tensor<f32>
func.func @sum(%x: tensor<1048576xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<1048576xf32>) outs(%f : tensor<f32>) dimensions = [0]
  return %s : tensor<f32>
}

// -----

// Split-K: both operands are split along the reduction; five steps are left and summed separately.
// CHECK-LABEL: @product
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [4, 1000000] [1, 1]
// CHECK: tensor.expand_shape %[[A]] {{\[\[}}0], [1, 2]] output_shape [4, 8, 125000]
// CHECK: %[[B:.*]] = tensor.extract_slice %arg1[0, 0] [1000000, 4] [1, 1]
// CHECK: tensor.expand_shape %[[B]] {{\[\[}}0, 1], [2]] output_shape [8, 125000, 4]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK: } -> tensor<8x4x4xf32>
// CHECK: tensor.extract_slice %arg0[0, 1000000] [4, 5] [1, 1]
// CHECK: tensor.extract_slice %arg1[1000000, 0] [5, 4] [1, 1]
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[P]] : tensor<8x4x4xf32>) outs(%[[R]] : tensor<4x4xf32>)
func.func @product(%a: tensor<4x1000005xf32>, %b: tensor<1000005x4xf32>) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.matmul ins(%a, %b : tensor<4x1000005xf32>, tensor<1000005x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}

// -----

// Each core has rows of its own, so nothing is split.
// CHECK-LABEL: @rows
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @rows(%x: tensor<64x65536xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<64x65536xf32>) outs(%f : tensor<64xf32>) dimensions = [1]
  return %s : tensor<64xf32>
}
