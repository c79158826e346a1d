// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-split-elementwise-of-concat -canonicalize | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Each part gets the addition, with its part of the vector.
// CHECK-LABEL: @parts
// CHECK: %[[V:.*]] = tensor.extract_slice %arg2[0] [3] [1]
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V]] : tensor<2x3xf32>, tensor<3xf32>)
// CHECK: %[[W:.*]] = tensor.extract_slice %arg2[3] [4] [1]
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[W]] : tensor<2x4xf32>, tensor<4xf32>)
// CHECK: tensor.concat dim(1) %[[A]], %[[B]]
func.func @parts(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>, %v: tensor<7xf32>) -> tensor<2x7xf32> {
  %e0 = tensor.empty() : tensor<2x3xf32>
  %e1 = tensor.empty() : tensor<2x4xf32>
  %a = linalg.exp ins(%x : tensor<2x3xf32>) outs(%e0 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = linalg.exp ins(%y : tensor<2x4xf32>) outs(%e1 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %e = tensor.empty() : tensor<2x7xf32>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %v : tensor<2x7xf32>, tensor<7xf32>) outs(%e : tensor<2x7xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<2x7xf32>
  return %r : tensor<2x7xf32>
}

// -----

// Model inputs are concatenated: no producer could take the operation.
// CHECK-LABEL: @inputs
// CHECK: tensor.concat
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @inputs(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %c = tensor.concat dim(1) %x, %y : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %e = tensor.empty() : tensor<2x7xf32>
  %r = linalg.exp ins(%c : tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
  return %r : tensor<2x7xf32>
}

// -----

// Another operation reads the concatenation unchanged.
// CHECK-LABEL: @two_readers
// CHECK: tensor.concat
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x7xf32>)
func.func @two_readers(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>) {
  %e0 = tensor.empty() : tensor<2x3xf32>
  %e1 = tensor.empty() : tensor<2x4xf32>
  %a = linalg.exp ins(%x : tensor<2x3xf32>) outs(%e0 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = linalg.exp ins(%y : tensor<2x4xf32>) outs(%e1 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %e = tensor.empty() : tensor<2x7xf32>
  %r = linalg.log ins(%c : tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
  return %r, %c : tensor<2x7xf32>, tensor<2x7xf32>
}
