// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -cse -tessera-stack-products -canonicalize -cse | FileCheck %s

// The three steps of a recurrent network, two rows each: one product of six rows.
// CHECK-LABEL: @steps
// CHECK: %[[L:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[L]], %arg1 : tensor<6x4xf32>, tensor<4x8xf32>)
// CHECK: %[[W:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0, 1], [2]] {{.*}} : tensor<6x8xf32> into tensor<2x3x8xf32>
// CHECK: tensor.extract_slice %[[W]][0, 0, 0] [2, 1, 8] [1, 1, 1]
// CHECK: tensor.extract_slice %[[W]][0, 1, 0] [2, 1, 8] [1, 1, 1]
// CHECK: tensor.extract_slice %[[W]][0, 2, 0] [2, 1, 8] [1, 1, 1]
// CHECK-NOT: arith.mulf
func.func @steps(%x: tensor<2x3x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %s0 = tensor.extract_slice %x[0, 0, 0] [2, 1, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x1x4xf32>
  %v0 = tensor.collapse_shape %s0 [[0, 1], [2]] : tensor<2x1x4xf32> into tensor<2x4xf32>
  %p0 = linalg.matmul ins(%v0, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %s1 = tensor.extract_slice %x[0, 1, 0] [2, 1, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x4xf32>
  %p1 = linalg.matmul ins(%s1, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %s2 = tensor.extract_slice %x[0, 2, 0] [2, 1, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x4xf32>
  %p2 = linalg.matmul ins(%s2, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q0 = linalg.log ins(%p0 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q1 = linalg.log ins(%p1 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q2 = linalg.log ins(%p2 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  return %q0, %q1, %q2 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Slices of rows of a matrix: there is no dimension to collapse.
// CHECK-LABEL: @rows
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<5x4xf32>, tensor<4x8xf32>)
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [2, 8] [1, 1]
// CHECK: tensor.extract_slice %{{.*}}[2, 0] [3, 8] [1, 1]
func.func @rows(%x: tensor<5x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> (tensor<2x8xf32>, tensor<3x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %g = tensor.empty() : tensor<3x8xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<3x8xf32>) -> tensor<3x8xf32>
  %s0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<5x4xf32> to tensor<2x4xf32>
  %s1 = tensor.extract_slice %x[2, 0] [3, 4] [1, 1] : tensor<5x4xf32> to tensor<3x4xf32>
  %p0 = linalg.matmul ins(%s0, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %p1 = linalg.matmul ins(%s1, %w : tensor<3x4xf32>, tensor<4x8xf32>) outs(%h : tensor<3x8xf32>) -> tensor<3x8xf32>
  %q0 = linalg.log ins(%p0 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q1 = linalg.log ins(%p1 : tensor<3x8xf32>) outs(%g : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %q0, %q1 : tensor<2x8xf32>, tensor<3x8xf32>
}

// -----

// Half of the computed rows would be unused.
// CHECK-LABEL: @few
// CHECK-COUNT-2: ins(%{{.*}}, %arg1 : tensor<2x4xf32>, tensor<4x8xf32>)
func.func @few(%x: tensor<8x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %s0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<8x4xf32> to tensor<2x4xf32>
  %s1 = tensor.extract_slice %x[4, 0] [2, 4] [1, 1] : tensor<8x4xf32> to tensor<2x4xf32>
  %p0 = linalg.matmul ins(%s0, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %p1 = linalg.matmul ins(%s1, %w : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q0 = linalg.log ins(%p0 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q1 = linalg.log ins(%p1 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  return %q0, %q1 : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Different weights, a returned result, a slice through the reduction dimension: all unchanged.
// CHECK-LABEL: @different
// CHECK-COUNT-2: ins(%{{.*}} : tensor<2x4xf32>, tensor<4x8xf32>)
// CHECK-COUNT-2: ins(%{{.*}} : tensor<4x2xf32>, tensor<2x8xf32>)
func.func @different(%x: tensor<4x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32> {tessera.weight = 1 : i64}, %w2: tensor<2x8xf32> {tessera.weight = 2 : i64}) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %g = tensor.empty() : tensor<4x8xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<4x8xf32>) -> tensor<4x8xf32>
  %s0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  %s1 = tensor.extract_slice %x[2, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  %s2 = tensor.extract_slice %x[0, 0] [4, 2] [1, 1] : tensor<4x4xf32> to tensor<4x2xf32>
  %s3 = tensor.extract_slice %x[0, 2] [4, 2] [1, 1] : tensor<4x4xf32> to tensor<4x2xf32>
  %p0 = linalg.matmul ins(%s0, %w0 : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %p1 = linalg.matmul ins(%s1, %w1 : tensor<2x4xf32>, tensor<4x8xf32>) outs(%f : tensor<2x8xf32>) -> tensor<2x8xf32>
  %p2 = linalg.matmul ins(%s2, %w2 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%h : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p3 = linalg.matmul ins(%s3, %w2 : tensor<4x2xf32>, tensor<2x8xf32>) outs(%h : tensor<4x8xf32>) -> tensor<4x8xf32>
  %q0 = linalg.log ins(%p0 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q1 = linalg.log ins(%p1 : tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %q2 = linalg.add ins(%p2, %p3 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%g : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %q0, %q1, %q2 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>
}
