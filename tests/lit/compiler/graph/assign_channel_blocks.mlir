// RUN: tessera-opt %s -split-input-file -tessera-generalize -tessera-assign-channel-blocks -canonicalize | FileCheck %s
// RUN: tessera-opt %s -split-input-file -tessera-generalize "-tessera-assign-channel-blocks=lanes=8" -canonicalize | FileCheck %s --check-prefix=AVX2

// Channels divide: blocks of 16 on both sides, the filter as [K/k, C/c, kh, kw, c, k].
// CHECK-LABEL: @blocked
// CHECK: ins({{.*}} : tensor<1x2x9x9x16xf32>, tensor<4x2x3x3x16x16xf32>) outs({{.*}} : tensor<1x4x7x7x16xf32>)
// AVX2-LABEL: @blocked
// AVX2: tensor<1x4x9x9x8xf32>, tensor<8x4x3x3x8x8xf32>
func.func @blocked(%x: tensor<1x32x9x9xf32>, %w: tensor<64x32x3x3xf32> {tessera.weight = 0 : i64}) -> tensor<1x64x7x7xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x7x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x32x9x9xf32>, tensor<64x32x3x3xf32>)
      outs(%f : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  return %r : tensor<1x64x7x7xf32>
}

// -----

// Three input channels are read as they are.
// CHECK-LABEL: @first_layer
// CHECK: ins({{.*}} : tensor<1x3x9x9xf32>, tensor<4x3x3x3x16xf32>)
// AVX2-LABEL: @first_layer
// AVX2: ins({{.*}} : tensor<1x3x9x9xf32>, tensor<8x3x3x3x8xf32>)
func.func @first_layer(%x: tensor<1x3x9x9xf32>, %w: tensor<64x3x3x3xf32> {tessera.weight = 0 : i64}) -> tensor<1x64x7x7xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x7x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x9x9xf32>, tensor<64x3x3x3xf32>)
      outs(%f : tensor<1x64x7x7xf32>) -> tensor<1x64x7x7xf32>
  return %r : tensor<1x64x7x7xf32>
}

// -----

// A filter that is computed at run time would have to be packed at run time: left alone.
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

// An elementwise operation alone is no reason to change a layout.
// CHECK-LABEL: @elementwise
// CHECK-NOT: 16xf32
// AVX2-LABEL: @elementwise
func.func @elementwise(%x: tensor<1x32x9x9xf32>) -> tensor<1x32x9x9xf32> {
  %e = tensor.empty() : tensor<1x32x9x9xf32>
  %r = linalg.exp ins(%x : tensor<1x32x9x9xf32>) outs(%e : tensor<1x32x9x9xf32>) -> tensor<1x32x9x9xf32>
  return %r : tensor<1x32x9x9xf32>
}
