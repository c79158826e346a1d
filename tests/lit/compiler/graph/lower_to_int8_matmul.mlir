// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-narrow-products=target=cascadelake -tessera-fold-constants -tessera-remove-dead-code -canonicalize | FileCheck %s

// Zero points of activations become sums of weights, which are constants: 3 * (1 + 2), 3 * (3 - 4).
// CHECK-LABEL: func @activations
// CHECK-DAG: arith.constant 3 : i32
// CHECK-DAG: %[[SUMS:.*]] = arith.constant dense<[3, -1]> : tensor<2xi32>
// CHECK: ^bb0(%[[X:.*]]: i8, %[[W:.*]]: i8, %[[SUM:.*]]: i32):
// CHECK-DAG: %[[WIDE_X:.*]] = arith.extui %[[X]]
// CHECK-DAG: %[[WIDE_W:.*]] = arith.extsi %[[W]]
// CHECK: %[[TERM:.*]] = arith.muli %[[WIDE_X]], %[[WIDE_W]]
// CHECK: arith.addi %[[SUM]], %[[TERM]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SUMS]] : tensor<4x2xi32>, tensor<2xi32>)
// CHECK: arith.subi
func.func @activations(%x: tensor<4x2xi8>) -> tensor<4x2xi32> {
  %w = arith.constant dense<[[1, 3], [2, -4]]> : tensor<2x2xi8>
  %c3 = arith.constant 3 : i32
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x2xi32>
  %f = tensor.empty() : tensor<2x2xi32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x2xi8>) outs(%e : tensor<4x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extui %in : i8 to i32
    %r = arith.subi %q, %c3 : i32
    linalg.yield %r : i32
  } -> tensor<4x2xi32>
  %weights = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x2xi8>) outs(%f : tensor<2x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<2x2xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x2xi32>) -> tensor<4x2xi32>
  %y = linalg.matmul ins(%wide, %weights : tensor<4x2xi32>, tensor<2x2xi32>) outs(%zero : tensor<4x2xi32>) -> tensor<4x2xi32>
  return %y : tensor<4x2xi32>
}

// -----

// Signed activations get their sign bits flipped when they are loaded; the added 128 is subtracted from the sums.
// CHECK-LABEL: func @signs
// CHECK-DAG: arith.constant 128 : i32
// CHECK: %[[TURNED:.*]] = arith.xori %{{.*}}, %{{.*}} : i8
// CHECK: arith.extui %[[TURNED]]
func.func @signs(%x: tensor<4x2xi8>) -> tensor<4x2xi32> {
  %w = arith.constant dense<[[1, 3], [2, -4]]> : tensor<2x2xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x2xi32>
  %f = tensor.empty() : tensor<2x2xi32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x2xi8>) outs(%e : tensor<4x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<4x2xi32>
  %weights = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x2xi8>) outs(%f : tensor<2x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<2x2xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x2xi32>) -> tensor<4x2xi32>
  %y = linalg.matmul ins(%wide, %weights : tensor<4x2xi32>, tensor<2x2xi32>) outs(%zero : tensor<4x2xi32>) -> tensor<4x2xi32>
  return %y : tensor<4x2xi32>
}

// -----

// A zero point that varies along the reduction cannot be taken out of it.
// CHECK-LABEL: func @varies_along_the_sum
// CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK-NEXT: arith.muli
func.func @varies_along_the_sum(%x: tensor<4x2xi8>, %z: tensor<2xi8>, %w: tensor<2x2xi8>) -> tensor<4x2xi32> {
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x2xi32>
  %f = tensor.empty() : tensor<2x2xi32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %z : tensor<4x2xi8>, tensor<2xi8>) outs(%e : tensor<4x2xi32>) {
  ^bb0(%in: i8, %point: i8, %out: i32):
    %q = arith.extui %in : i8 to i32
    %p = arith.extui %point : i8 to i32
    %r = arith.subi %q, %p : i32
    linalg.yield %r : i32
  } -> tensor<4x2xi32>
  %weights = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x2xi8>) outs(%f : tensor<2x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<2x2xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x2xi32>) -> tensor<4x2xi32>
  %y = linalg.matmul ins(%wide, %weights : tensor<4x2xi32>, tensor<2x2xi32>) outs(%zero : tensor<4x2xi32>) -> tensor<4x2xi32>
  return %y : tensor<4x2xi32>
}

// -----

// Sums of products with such differences wrap in 32 bits, and floats do not: unchanged.
// CHECK-LABEL: func @zero_point_of_32_bits
// CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.mulf
func.func @zero_point_of_32_bits(%x: tensor<2x4xi8>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1, 3], [2, -4], [5, 6], [7, 8]]> : tensor<4x2xi8>
  %big = arith.constant 2000000000 : i32
  %s = arith.constant 5.0e-01 : f32
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %f = tensor.empty() : tensor<4x2xf32>
  %g = tensor.empty() : tensor<2x2xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x4xi8>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %q = arith.extui %in : i8 to i32
    %r = arith.subi %q, %big : i32
    %t = arith.sitofp %r : i32 to f32
    %u = arith.mulf %t, %s : f32
    linalg.yield %u : f32
  } -> tensor<2x4xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x2xi8>) outs(%f : tensor<4x2xf32>) {
  ^bb0(%in: i8, %out: f32):
    %q = arith.extsi %in : i8 to i32
    %t = arith.sitofp %q : i32 to f32
    %u = arith.mulf %t, %s : f32
    linalg.yield %u : f32
  } -> tensor<4x2xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%g : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%a, %b : tensor<2x4xf32>, tensor<4x2xf32>) outs(%z : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// A zero point computed at run time becomes the border: subtracted before the padding and added after it.
// CHECK-LABEL: func @border
// CHECK-SAME: (%[[X:.*]]: tensor<5x3xi8>, %[[ZERO:.*]]: tensor<i8>)
// CHECK: %[[LESS:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[ZERO]] : tensor<5x3xi8>, tensor<i8>)
// CHECK: arith.subi %{{.*}}, %{{.*}} : i8
// CHECK: tensor.pad %[[LESS]] low[1, 0] high[2, 0]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[ZERO]] : tensor<8x3xi8>, tensor<i8>)
// CHECK: arith.addi %{{.*}}, %{{.*}} : i8
// CHECK: ^bb0(%{{.*}}: i8, %{{.*}}: i8, %{{.*}}: i32):
// CHECK: arith.muli
func.func @border(%x: tensor<5x3xi8>, %z: tensor<i8>) -> tensor<8x2xi32> {
  %w = arith.constant dense<[[1, 3], [2, -4], [5, 6]]> : tensor<3x2xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x3xi32>
  %f = tensor.empty() : tensor<3x2xi32>
  %g = tensor.empty() : tensor<8x2xi32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %z : tensor<5x3xi8>, tensor<i8>) outs(%e : tensor<5x3xi32>) {
  ^bb0(%in: i8, %point: i8, %out: i32):
    %q = arith.extui %in : i8 to i32
    %p = arith.extui %point : i8 to i32
    %r = arith.subi %q, %p : i32
    linalg.yield %r : i32
  } -> tensor<5x3xi32>
  %padded = tensor.pad %wide low[1, 0] high[2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c0 : i32
  } : tensor<5x3xi32> to tensor<8x3xi32>
  %weights = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<3x2xi8>) outs(%f : tensor<3x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<3x2xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%g : tensor<8x2xi32>) -> tensor<8x2xi32>
  %y = linalg.matmul ins(%padded, %weights : tensor<8x3xi32>, tensor<3x2xi32>) outs(%zero : tensor<8x2xi32>) -> tensor<8x2xi32>
  return %y : tensor<8x2xi32>
}

// -----

// A zero point of weights is taken out by sums over windows: first over all channels, then over the window.
// CHECK-LABEL: func @windows
// CHECK-SAME: (%[[X:.*]]: tensor<4x9xi8>, %[[W:.*]]: tensor<2x4x3xi8>)
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] : tensor<4x9xi8>, tensor<2x4x3xi8>)
// CHECK: %[[CHANNELS:.*]] = linalg.generic {{{.*}}iterator_types = ["reduction", "parallel"]} ins(%[[X]] : tensor<4x9xi8>)
// CHECK: %[[WINDOWS:.*]] = linalg.generic {{{.*}}iterator_types = ["parallel", "reduction"]} ins(%[[CHANNELS]], %{{.*}} : tensor<9xi32>, tensor<3xi32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[WINDOWS]] : tensor<2x4xi32>, tensor<4xi32>)
#line = affine_map<(f, o, c, k) -> (c, o * 2 + k)>
func.func @windows(%x: tensor<4x9xi8>, %w: tensor<2x4x3xi8>) -> tensor<2x4xi32> {
  %c7 = arith.constant 7 : i32
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x9xi32>
  %f = tensor.empty() : tensor<2x4x3xi32>
  %g = tensor.empty() : tensor<2x4xi32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x9xi8>) outs(%e : tensor<4x9xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extui %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<4x9xi32>
  %weights = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x4x3xi8>) outs(%f : tensor<2x4x3xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    %r = arith.subi %q, %c7 : i32
    linalg.yield %r : i32
  } -> tensor<2x4x3xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%g : tensor<2x4xi32>) -> tensor<2x4xi32>
  %y = linalg.generic {indexing_maps = [#line, affine_map<(f, o, c, k) -> (f, c, k)>, affine_map<(f, o, c, k) -> (f, o)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%wide, %weights : tensor<4x9xi32>, tensor<2x4x3xi32>) outs(%zero : tensor<2x4xi32>) {
  ^bb0(%a: i32, %b: i32, %out: i32):
    %m = arith.muli %a, %b : i32
    %s = arith.addi %out, %m : i32
    linalg.yield %s : i32
  } -> tensor<2x4xi32>
  return %y : tensor<2x4xi32>
}
