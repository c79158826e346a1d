// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-drop-idle-taps -canonicalize | FileCheck %s

// Rows are eight apart in an image of six: the first and the last tap are always in the padding. Columns two apart are
// all used.
// CHECK-LABEL: @rows
// CHECK-SAME: %[[X:.*]]: tensor<1x4x6x9xf32>, %[[W:.*]]: tensor<8x4x3x3xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 0, 2] high[0, 0, 0, 2]
// CHECK: %[[V:.*]] = tensor.extract_slice %[[W]][0, 0, 1, 0] [8, 4, 1, 3] [1, 1, 1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[V]] : tensor<1x4x6x13xf32>, tensor<8x4x1x3xf32>)
func.func @rows(%x: tensor<1x4x6x9xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x6x9xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 8, 2] high[0, 0, 8, 2] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %z : f32
  } : tensor<1x4x6x9xf32> to tensor<1x4x22x13xf32>
  %e = tensor.empty() : tensor<1x8x6x9xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x6x9xf32>) -> tensor<1x8x6x9xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<[8, 2]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%p, %w : tensor<1x4x22x13xf32>, tensor<8x4x3x3xf32>) outs(%f : tensor<1x8x6x9xf32>) -> tensor<1x8x6x9xf32>
  return %y : tensor<1x8x6x9xf32>
}

// -----

// Padding with ones is not zero.
// CHECK-LABEL: @other_value
// CHECK-NOT: extract_slice
// CHECK: return
func.func @other_value(%x: tensor<1x1x2x2xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32> {
  %one = arith.constant 1.0 : f32
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 4, 4] high[0, 0, 4, 4] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %one : f32
  } : tensor<1x1x2x2xf32> to tensor<1x1x10x10xf32>
  %e = tensor.empty() : tensor<1x1x2x2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<4> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%p, %w : tensor<1x1x10x10xf32>, tensor<1x1x3x3xf32>) outs(%f : tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  return %y : tensor<1x1x2x2xf32>
}
