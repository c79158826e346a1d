// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-hoist-elementwise -canonicalize -cse | FileCheck %s

// A pixel shuffle of a convolution's result: a factor and a comparison move before it; the channels' factors are
// repeated for its phases.
// CHECK-LABEL: @shuffled
// CHECK: %[[C:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2xf32>) outs(%{{.*}} : tensor<2x2x2xf32>)
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[P]] {{\[\[}}0, 1, 2]] : tensor<2x2x2xf32> into tensor<8xf32>
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[F]] : tensor<1x8x5x7xf32>, tensor<8xf32>)
// CHECK: mulf
// CHECK: %[[V:.*]] = tensor.expand_shape %[[H]]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[V]]
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[T]]
// CHECK: return %[[R]] : tensor<1x2x10x14xf32>
func.func @shuffled(%x: tensor<1x4x5x7xf32>) -> tensor<1x2x10x14xf32> {
  %z = arith.constant 0.0 : f32
  %w = arith.constant dense<2.0> : tensor<8x4x1x1xf32>
  %s = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<1x8x5x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  %c = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<1x4x5x7xf32>, tensor<8x4x1x1xf32>) outs(%f : tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  %v = tensor.expand_shape %c [[0], [1, 2, 3], [4], [5]] output_shape [1, 2, 2, 2, 5, 7]
    : tensor<1x8x5x7xf32> into tensor<1x2x2x2x5x7xf32>
  %te = tensor.empty() : tensor<1x2x5x2x7x2xf32>
  %t = linalg.transpose ins(%v : tensor<1x2x2x2x5x7xf32>) outs(%te : tensor<1x2x5x2x7x2xf32>) permutation = [0, 3, 4, 1, 5, 2]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3], [4, 5]] : tensor<1x2x5x2x7x2xf32> into tensor<1x2x10x14xf32>
  %ye = tensor.empty() : tensor<1x2x10x14xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c)>,
                                        affine_map<(n, c, h, w) -> (n, c, h, w)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%r, %s : tensor<1x2x10x14xf32>, tensor<2xf32>) outs(%ye : tensor<1x2x10x14xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x2x10x14xf32>
  return %y : tensor<1x2x10x14xf32>
}

// -----

// A movement of a model input stays first.
// CHECK-LABEL: @input
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: %[[E:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: math.tanh
// CHECK: return %[[E]]
func.func @input(%x: tensor<3x5xf32>) -> tensor<5x3xf32> {
  %te = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%x : tensor<3x5xf32>) outs(%te : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%t : tensor<5x3xf32>) outs(%te : tensor<5x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.tanh %a : f32
    linalg.yield %m : f32
  } -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}
