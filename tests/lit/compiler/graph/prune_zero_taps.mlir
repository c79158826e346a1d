// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fold-constants -tessera-keep-busy-taps -canonicalize | FileCheck %s

// The phases of a transposed convolution with a kernel of 3 and a stride of 2 along a row: 64 outputs of one tap, 64 of
// both.
// CHECK-LABEL: @phases
// CHECK-SAME: %[[X:.*]]: tensor<1x32x1x801xf32>
// CHECK: %[[HALF:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0, 0] [64, 32, 1, 2] [1, 1, 1, 1]
// CHECK: %[[LEFT:.*]] = tensor.extract_slice %[[X]][0, 0, 0, 0] [1, 32, 1, 800] [1, 1, 1, 1]
// CHECK: %[[ONE:.*]] = tensor.extract_slice %[[HALF]][0, 0, 0, 0] [64, 32, 1, 1] [1, 1, 1, 1]
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[LEFT]], %[[ONE]]
// CHECK: %[[BOTH:.*]] = tensor.extract_slice %{{.*}}[64, 0, 0, 0] [64, 32, 1, 2] [1, 1, 1, 1]
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[BOTH]]
// CHECK: tensor.concat dim(1) %[[A]], %[[B]] : (tensor<1x64x1x800xf32>, tensor<1x64x1x800xf32>)
func.func @phases(%x: tensor<1x32x1x801xf32>) -> tensor<1x128x1x800xf32> {
  %z = arith.constant 0.0 : f32
  %a = arith.constant dense<2.0> : tensor<64x32x1x1xf32>
  %b = arith.constant dense<3.0> : tensor<64x32x1x2xf32>
  %p = tensor.pad %a low[0, 0, 0, 0] high[0, 0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<64x32x1x1xf32> to tensor<64x32x1x2xf32>
  %w = tensor.concat dim(0) %p, %b : (tensor<64x32x1x2xf32>, tensor<64x32x1x2xf32>) -> tensor<128x32x1x2xf32>
  %e = tensor.empty() : tensor<1x128x1x800xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x128x1x800xf32>) -> tensor<1x128x1x800xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<1x32x1x801xf32>, tensor<128x32x1x2xf32>) outs(%f : tensor<1x128x1x800xf32>) -> tensor<1x128x1x800xf32>
  return %y : tensor<1x128x1x800xf32>
}

// -----

// A few outputs fill less than a vector, and all of them use both taps.
// CHECK-LABEL: @few
// CHECK-NOT: tensor.concat
// CHECK: return
func.func @few(%x: tensor<1x32x1x801xf32>) -> tensor<1x6x1x800xf32> {
  %z = arith.constant 0.0 : f32
  %a = arith.constant dense<2.0> : tensor<3x32x1x1xf32>
  %b = arith.constant dense<3.0> : tensor<3x32x1x2xf32>
  %p = tensor.pad %a low[0, 0, 0, 0] high[0, 0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<3x32x1x1xf32> to tensor<3x32x1x2xf32>
  %w = tensor.concat dim(0) %p, %b : (tensor<3x32x1x2xf32>, tensor<3x32x1x2xf32>) -> tensor<6x32x1x2xf32>
  %e = tensor.empty() : tensor<1x6x1x800xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x6x1x800xf32>) -> tensor<1x6x1x800xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<1x32x1x801xf32>, tensor<6x32x1x2xf32>) outs(%f : tensor<1x6x1x800xf32>) -> tensor<1x6x1x800xf32>
  return %y : tensor<1x6x1x800xf32>
}
