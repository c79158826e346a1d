// RUN: tessera-opt %s -split-input-file -tessera-drop-unit-broadcasts | FileCheck %s

// A mask [1, 8], whose unit dimension is read by a loop of one iteration, becomes the vector [8].
// CHECK-DAG: #[[VECTOR:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-LABEL: @mask
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1]] : tensor<1x8xf32> into tensor<8xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[VECTOR]], #{{.*}}]
func.func @mask(%x: tensor<1x4x8xf32>, %m: tensor<1x8xf32>) -> tensor<1x4x8xf32> {
  %e = tensor.empty() : tensor<1x4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, j)>, affine_map<(b, i, j) -> (b, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<1x4x8xf32>, tensor<1x8xf32>) outs(%e : tensor<1x4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x4x8xf32>
  return %r : tensor<1x4x8xf32>
}

// -----

// Without a unit extent nothing changes, and a permutation is no broadcast.
// CHECK-LABEL: @full
// CHECK-NOT: tensor.collapse_shape
func.func @full(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
