// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-absorb-transposes -canonicalize | FileCheck %s

// The product reads heads in the layout of the projection, [rows, heads, depth], and writes the merged layout.
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d2)>
// CHECK-LABEL: @heads
// CHECK-COUNT-1: linalg.generic {indexing_maps = [#[[LEFT]], #{{.*}}, #[[OUT]]]{{.*}} ins(%arg0, %arg1 : tensor<6x2x4xf32>, tensor<2x4x8xf32>)
// CHECK-NOT: linalg.generic
func.func @heads(%x: tensor<6x2x4xf32>, %y: tensor<2x4x8xf32>) -> tensor<6x2x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x4xf32>
  %a = linalg.transpose ins(%x : tensor<6x2x4xf32>) outs(%e : tensor<2x6x4xf32>) permutation = [1, 0, 2]
  %g = tensor.empty() : tensor<2x6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %p = linalg.batch_matmul ins(%a, %y : tensor<2x6x4xf32>, tensor<2x4x8xf32>) outs(%f : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %h = tensor.empty() : tensor<6x2x8xf32>
  %b = linalg.transpose ins(%p : tensor<2x6x8xf32>) outs(%h : tensor<6x2x8xf32>) permutation = [1, 0, 2]
  return %b : tensor<6x2x8xf32>
}

// -----

// Batch and heads were merged: the product gets both loops, then reads through the transpose.
// CHECK-LABEL: @merged_batch
// CHECK: linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<3x6x2x4xf32>, tensor<3x2x4x8xf32>)
// CHECK-NOT: linalg.generic
func.func @merged_batch(%x: tensor<3x6x2x4xf32>, %y: tensor<6x4x8xf32>) -> tensor<6x6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x2x6x4xf32>
  %a = linalg.transpose ins(%x : tensor<3x6x2x4xf32>) outs(%e : tensor<3x2x6x4xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<3x2x6x4xf32> into tensor<6x6x4xf32>
  %g = tensor.empty() : tensor<6x6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %p = linalg.batch_matmul ins(%v, %y : tensor<6x6x4xf32>, tensor<6x4x8xf32>) outs(%f : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  return %p : tensor<6x6x8xf32>
}

// -----

// Keys: the innermost dimension moves. The product reads them row by row; packing is decided elsewhere.
// CHECK: #[[KEYS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-LABEL: @keys
// CHECK-COUNT-1: linalg.generic {indexing_maps = [#{{.*}}, #[[KEYS]], #{{.*}}]{{.*}} ins(%arg0, %arg1 : tensor<2x6x4xf32>, tensor<2x8x4xf32>)
// CHECK-NOT: linalg.generic
func.func @keys(%x: tensor<2x6x4xf32>, %y: tensor<2x8x4xf32>) -> tensor<2x6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %a = linalg.transpose ins(%y : tensor<2x8x4xf32>) outs(%e : tensor<2x4x8xf32>) permutation = [0, 2, 1]
  %g = tensor.empty() : tensor<2x6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %p = linalg.batch_matmul ins(%x, %a : tensor<2x6x4xf32>, tensor<2x4x8xf32>) outs(%f : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %p : tensor<2x6x8xf32>
}

// -----

// Two readers of the product: it cannot be written in two orders at once.
// CHECK-LABEL: @two_orders
// CHECK-COUNT-2: linalg.generic
func.func @two_orders(%x: tensor<2x6x4xf32>, %y: tensor<2x4x8xf32>) -> (tensor<2x6x8xf32>, tensor<6x2x8xf32>) {
  %z = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<2x6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %p = linalg.batch_matmul ins(%x, %y : tensor<2x6x4xf32>, tensor<2x4x8xf32>) outs(%f : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %h = tensor.empty() : tensor<6x2x8xf32>
  %b = linalg.transpose ins(%p : tensor<2x6x8xf32>) outs(%h : tensor<6x2x8xf32>) permutation = [1, 0, 2]
  return %p, %b : tensor<2x6x8xf32>, tensor<6x2x8xf32>
}

// -----

// The result's innermost dimension would move, and its vectors would be scattered, so the transpose stays.
// CHECK-LABEL: @scattered
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<2x6x4xf32>, tensor<2x4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x6x8xf32>) outs(%{{.*}} : tensor<2x8x6xf32>)
func.func @scattered(%x: tensor<2x6x4xf32>, %y: tensor<2x4x8xf32>) -> tensor<2x8x6xf32> {
  %z = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<2x6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %p = linalg.batch_matmul ins(%x, %y : tensor<2x6x4xf32>, tensor<2x4x8xf32>) outs(%f : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %h = tensor.empty() : tensor<2x8x6xf32>
  %b = linalg.transpose ins(%p : tensor<2x6x8xf32>) outs(%h : tensor<2x8x6xf32>) permutation = [0, 2, 1]
  return %b : tensor<2x8x6xf32>
}

// -----

// A convolution's input from NHWC to NCHW: its layout is decided later, by its operands.
// CHECK-LABEL: @convolution
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x9x9x16xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[T]], %arg1 : tensor<1x16x9x9xf32>, tensor<32x16x3x3xf32>)
func.func @convolution(%x: tensor<1x9x9x16xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<1x32x7x7xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x9x9xf32>
  %a = linalg.transpose ins(%x : tensor<1x9x9x16xf32>) outs(%e : tensor<1x16x9x9xf32>) permutation = [0, 3, 1, 2]
  %g = tensor.empty() : tensor<1x32x7x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%g : tensor<1x32x7x7xf32>) -> tensor<1x32x7x7xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%a, %w : tensor<1x16x9x9xf32>, tensor<32x16x3x3xf32>)
      outs(%f : tensor<1x32x7x7xf32>) -> tensor<1x32x7x7xf32>
  return %r : tensor<1x32x7x7xf32>
}
