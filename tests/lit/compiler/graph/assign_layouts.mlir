// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-assign-layouts -canonicalize | FileCheck %s
// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops "-tessera-assign-layouts=lanes=8" -canonicalize | FileCheck %s --check-prefix=AVX2

// Three input channels are read unchanged. Between the convolutions channels are in blocks of 16 without transforms,
// and the filters are [K/k, C/c, kh, kw, c, k]. The result returns to the caller's layout.
// CHECK-LABEL: @chain
// CHECK: ins({{.*}} : tensor<1x3x20x20xf32>, tensor<4x3x3x3x16xf32>) outs({{.*}} : tensor<1x4x18x18x16xf32>)
// CHECK-NOT: tessera.layout_transform
// CHECK: ins({{.*}} : tensor<1x4x18x18x16xf32>, tensor<2x4x3x3x16x16xf32>) outs({{.*}} : tensor<1x2x16x16x16xf32>)
// CHECK-COUNT-1: tessera.layout_transform
// CHECK-NOT: tessera.layout_transform
// AVX2-LABEL: @chain
// AVX2: ins({{.*}} : tensor<1x3x20x20xf32>, tensor<8x3x3x3x8xf32>) outs({{.*}} : tensor<1x8x18x18x8xf32>)
// AVX2: ins({{.*}} : tensor<1x8x18x18x8xf32>, tensor<4x8x3x3x8x8xf32>) outs({{.*}} : tensor<1x4x16x16x8xf32>)
func.func @chain(%x: tensor<1x3x20x20xf32>, %w: tensor<64x3x3x3xf32> {tessera.weight = 0 : i64},
                 %v: tensor<32x64x3x3xf32> {tessera.weight = 1 : i64}) -> tensor<1x32x16x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x18x18xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x20x20xf32>, tensor<64x3x3x3xf32>)
      outs(%f : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %e2 = tensor.empty() : tensor<1x32x16x16xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32>
  %s = linalg.conv_2d_nchw_fchw ins(%r, %v : tensor<1x64x18x18xf32>, tensor<32x64x3x3xf32>)
      outs(%f2 : tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32>
  return %s : tensor<1x32x16x16xf32>
}

// -----

// A filter computed at run time would have to be packed at run time: unchanged.
// CHECK-LABEL: @dynamic_filter
// CHECK: ins({{.*}} : tensor<1x32x9x9xf32>, tensor<64x32x3x3xf32>)
// AVX2-LABEL: @dynamic_filter
// AVX2: ins({{.*}} : tensor<1x32x9x9xf32>, tensor<64x32x3x3xf32>)
func.func @dynamic_filter(%x: tensor<1x32x9x9xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<1x64x7x7xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x7x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x32x9x9xf32>, tensor<64x32x3x3xf32>)
      outs(%f : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  return %r : tensor<1x64x7x7xf32>
}

// -----

// An elementwise operation alone does not change a layout.
// CHECK-LABEL: @elementwise
// CHECK-NOT: 16xf32
// AVX2-LABEL: @elementwise
func.func @elementwise(%x: tensor<1x32x9x9xf32>) -> tensor<1x32x9x9xf32> {
  %e = tensor.empty() : tensor<1x32x9x9xf32>
  %r = linalg.exp ins(%x : tensor<1x32x9x9xf32>) outs(%e : tensor<1x32x9x9xf32>) -> tensor<1x32x9x9xf32>
  return %r : tensor<1x32x9x9xf32>
}

// -----

// Transposes around a convolution mean channels last: it reads and writes that layout.
// CHECK-LABEL: @channels_last
// CHECK-NOT: tessera.layout_transform
// CHECK: ins({{.*}} : tensor<1x20x20x3xf32>, tensor<4x3x3x3x16xf32>)
// CHECK-NOT: tessera.layout_transform
// CHECK: return {{.*}} tensor<1x18x18x64xf32>
// AVX2-LABEL: @channels_last
func.func @channels_last(%x: tensor<1x20x20x3xf32>, %w: tensor<64x3x3x3xf32> {tessera.weight = 0 : i64}) -> tensor<1x18x18x64xf32> {
  %z = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<1x3x20x20xf32>
  %xt = linalg.transpose ins(%x : tensor<1x20x20x3xf32>) outs(%t : tensor<1x3x20x20xf32>) permutation = [0, 3, 1, 2]
  %e = tensor.empty() : tensor<1x64x18x18xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%xt, %w : tensor<1x3x20x20xf32>, tensor<64x3x3x3xf32>)
      outs(%f : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %u = tensor.empty() : tensor<1x18x18x64xf32>
  %y = linalg.transpose ins(%r : tensor<1x64x18x18xf32>) outs(%u : tensor<1x18x18x64xf32>) permutation = [0, 2, 3, 1]
  return %y : tensor<1x18x18x64xf32>
}

// -----

// The vector width does not divide 1000 channels: the filter stays in rows of all channels. Panels of half a vector
// would leave half of each vector empty.
// CHECK-LABEL: @channels_last_in_half_vectors
// CHECK: ins({{.*}} : tensor<1x9x9x32xf32>, tensor<1x1x32x1000xf32>) outs({{.*}} : tensor<1x9x9x1000xf32>)
// AVX2-LABEL: @channels_last_in_half_vectors
// AVX2: ins({{.*}} : tensor<1x9x9x32xf32>, tensor<125x1x1x32x8xf32>) outs({{.*}} : tensor<1x9x9x125x8xf32>)
func.func @channels_last_in_half_vectors(%x: tensor<1x9x9x32xf32>, %w: tensor<1000x32x1x1xf32> {tessera.weight = 0 : i64}) -> tensor<1x9x9x1000xf32> {
  %z = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<1x32x9x9xf32>
  %xt = linalg.transpose ins(%x : tensor<1x9x9x32xf32>) outs(%t : tensor<1x32x9x9xf32>) permutation = [0, 3, 1, 2]
  %e = tensor.empty() : tensor<1x1000x9x9xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x1000x9x9xf32>) -> tensor<1x1000x9x9xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%xt, %w : tensor<1x32x9x9xf32>, tensor<1000x32x1x1xf32>)
      outs(%f : tensor<1x1000x9x9xf32>) -> tensor<1x1000x9x9xf32>
  %u = tensor.empty() : tensor<1x9x9x1000xf32>
  %y = linalg.transpose ins(%r : tensor<1x1000x9x9xf32>) outs(%u : tensor<1x9x9x1000xf32>) permutation = [0, 2, 3, 1]
  return %y : tensor<1x9x9x1000xf32>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Groups of 24 channels: a block of 16 would cross a group's border, so each block of the grouped convolution is one
// group. The convolution before it keeps its channels together, which suits both.
// CHECK-LABEL: @groups
// CHECK: outs({{.*}} : tensor<1x18x18x3x16xf32>)
// CHECK: outs({{.*}} : tensor<1x2x16x16x24xf32>)
// AVX2-LABEL: @groups
func.func @groups(%x: tensor<1x3x20x20xf32>, %w: tensor<48x3x3x3xf32> {tessera.weight = 0 : i64},
                  %v: tensor<2x24x24x3x3xf32> {tessera.weight = 1 : i64}) -> tensor<1x48x16x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48x18x18xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x48x18x18xf32>) -> tensor<1x48x18x18xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x20x20xf32>, tensor<48x3x3x3xf32>)
      outs(%f : tensor<1x48x18x18xf32>) -> tensor<1x48x18x18xf32>
  %g = tensor.expand_shape %r [[0], [1, 2], [3], [4]] output_shape [1, 2, 24, 18, 18] : tensor<1x48x18x18xf32> into tensor<1x2x24x18x18xf32>
  %e2 = tensor.empty() : tensor<1x2x24x16x16xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x2x24x16x16xf32>) -> tensor<1x2x24x16x16xf32>
  %s = linalg.conv_2d_ngchw_gfchw ins(%g, %v : tensor<1x2x24x18x18xf32>, tensor<2x24x24x3x3xf32>)
      outs(%f2 : tensor<1x2x24x16x16xf32>) -> tensor<1x2x24x16x16xf32>
  %y = tensor.collapse_shape %s [[0], [1, 2], [3], [4]] : tensor<1x2x24x16x16xf32> into tensor<1x48x16x16xf32>
  return %y : tensor<1x48x16x16xf32>
}

// -----

// The rows of the constant matrix are reordered to the flattened activation's layout: the activation is not
// transformed.
// CHECK-LABEL: @flatten
// CHECK-NOT: tessera.layout_transform
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<1x3x10x10xf32>, tensor<2x3x3x3x16xf32>)
// CHECK-NOT: tessera.layout_transform
// CHECK: ins({{.*}} : tensor<10x2x16x8x8xf32>) {{.*}} {tessera.layout_transform}
// CHECK-NOT: tessera.layout_transform
// CHECK: ins({{.*}} : tensor<1x2048xf32>, tensor<2048x10xf32>)
// AVX2-LABEL: @flatten
func.func @flatten(%x: tensor<1x3x10x10xf32>, %w: tensor<32x3x3x3xf32> {tessera.weight = 0 : i64},
                   %v: tensor<2048x10xf32> {tessera.weight = 1 : i64}) -> tensor<1x10xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x10x10xf32>, tensor<32x3x3x3xf32>)
      outs(%f : tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %flat = tensor.collapse_shape %r [[0], [1, 2, 3]] : tensor<1x32x8x8xf32> into tensor<1x2048xf32>
  %e2 = tensor.empty() : tensor<1x10xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x10xf32>) -> tensor<1x10xf32>
  %y = linalg.matmul ins(%flat, %v : tensor<1x2048xf32>, tensor<2048x10xf32>) outs(%f2 : tensor<1x10xf32>) -> tensor<1x10xf32>
  return %y : tensor<1x10xf32>
}

// -----

// An operation that reads a channel's index works on the plain tensor: the convolution's result is transformed for it.
// CHECK-LABEL: @reads_positions
// CHECK: outs({{.*}} : tensor<1x4x18x18x16xf32>)
// CHECK: tessera.layout_transform
// CHECK: linalg.index 1
// CHECK: return {{.*}} tensor<1x64x18x18xf32>
// AVX2-LABEL: @reads_positions
func.func @reads_positions(%x: tensor<1x64x20x20xf32>, %w: tensor<64x64x3x3xf32> {tessera.weight = 0 : i64}) -> tensor<1x64x18x18xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x18x18xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x64x20x20xf32>, tensor<64x64x3x3xf32>)
      outs(%f : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x64x18x18xf32>) outs(%e : tensor<1x64x18x18xf32>) {
  ^bb0(%p: f32, %o: f32):
    %c = linalg.index 1 : index
    %i = arith.index_cast %c : index to i32
    %q = arith.sitofp %i : i32 to f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x64x18x18xf32>
  return %y : tensor<1x64x18x18xf32>
}
