// RUN: tessera-opt %s -split-input-file -tessera-hoist-from-loops -canonicalize | FileCheck %s

// A recurrent layer: the products of five inputs of two rows become one product of ten rows before the loop, and each
// iteration scans its part. The product of the state stays.
// CHECK-LABEL: @layer
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %arg1 {{\[\[}}0, 1], [2]] : tensor<5x2x3xf32> into tensor<10x3xf32>
// CHECK: %[[PRODUCT:.*]] = linalg.generic {{.*}} ins(%[[ROWS]], %arg2 : tensor<10x3xf32>, tensor<3x4xf32>)
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[PRODUCT]] {{\[\[}}0, 1], [2]]
// CHECK: "tessera.loop"(%arg0, %arg1, %[[PARTS]], %arg2, %arg3) {{.*}}scanned = array<i1: true, true>
// CHECK: func.func private @step(%arg0: tensor<i64>, %arg1: tensor<2x4xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x4xf32>
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%arg1, %arg5 :
// CHECK-NOT: "reduction"
func.func @layer(%h: tensor<2x4xf32>, %x: tensor<5x2x3xf32>, %w: tensor<3x4xf32>, %r: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %l:2 = "tessera.loop"(%h, %x, %w, %r) {body = @step, trip_count = false, condition = false, carried = 1 : i64, most = 5 : i64,
    scanned = array<i1: true>, stacked = array<i1>}
    : (tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<3x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<i64>)
  return %l#0 : tensor<2x4xf32>
}
func.func private @step(%i: tensor<i64>, %h: tensor<2x4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %r: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x4xf32>) outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
  %q = linalg.matmul ins(%h, %r : tensor<2x4xf32>, tensor<4x4xf32>) outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = linalg.add ins(%p, %q : tensor<2x4xf32>, tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}

// -----

// A sum of loop-invariant values is computed once; a sum of the state is not.
// CHECK-LABEL: @once
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<2x4xf32>) outs({{.*}} : tensor<2xf32>)
// CHECK: "tessera.loop"(%arg0, %arg1, %[[SUM]])
// CHECK: func.func private @body(
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK-NOT: "reduction"
func.func @once(%h: tensor<2xf32>, %c: tensor<2x4xf32>) -> tensor<2xf32> {
  %l:2 = "tessera.loop"(%h, %c) {body = @body, trip_count = false, condition = false, carried = 1 : i64, most = 9 : i64,
    scanned = array<i1>, stacked = array<i1>} : (tensor<2xf32>, tensor<2x4xf32>) -> (tensor<2xf32>, tensor<i64>)
  return %l#0 : tensor<2xf32>
}
func.func private @body(%i: tensor<i64>, %h: tensor<2xf32>, %c: tensor<2x4xf32>) -> tensor<2xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.reduce { arith.addf } ins(%c : tensor<2x4xf32>) outs(%f : tensor<2xf32>) dimensions = [1]
  %a = linalg.add ins(%s, %h : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %g = tensor.empty() : tensor<f32>
  %k = linalg.fill ins(%z : f32) outs(%g : tensor<f32>) -> tensor<f32>
  %t = linalg.reduce { arith.addf } ins(%a : tensor<2xf32>) outs(%k : tensor<f32>) dimensions = [0]
  %b = linalg.broadcast ins(%t : tensor<f32>) outs(%e : tensor<2xf32>) dimensions = [0]
  return %b : tensor<2xf32>
}
