// RUN: tessera-opt %s -split-input-file -tessera-narrow-pads -canonicalize | FileCheck %s

// One block of channels: readers of the padding ignore the unit dimension, so the padding drops it.
// CHECK-LABEL: @before_a_view
// CHECK-SAME: %[[X:.*]]: tensor<1x6x7x16xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 1, 2, 0] high[0, 1, 0, 0]
// CHECK: tensor<1x6x7x16xf32> to tensor<1x8x9x16xf32>
// CHECK: return %[[P]]
func.func @before_a_view(%x: tensor<1x6x7x16xf32>) -> tensor<1x8x9x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.expand_shape %x [[0, 1], [2], [3], [4]] output_shape [1, 1, 6, 7, 16]
      : tensor<1x6x7x16xf32> into tensor<1x1x6x7x16xf32>
  %p = tensor.pad %e low[0, 0, 1, 2, 0] high[0, 0, 1, 0, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
    tensor.yield %z : f32
  } : tensor<1x1x6x7x16xf32> to tensor<1x1x8x9x16xf32>
  %c = tensor.collapse_shape %p [[0, 1], [2], [3], [4]] : tensor<1x1x8x9x16xf32> into tensor<1x8x9x16xf32>
  return %c : tensor<1x8x9x16xf32>
}

// -----

// If no reader ignores it, it stays.
// CHECK-LABEL: @as_it_is
// CHECK: tensor.pad %{{.*}} low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0]
// CHECK-NOT: tensor.collapse_shape
func.func @as_it_is(%x: tensor<1x1x6x7x16xf32>) -> tensor<1x1x8x9x16xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
    tensor.yield %z : f32
  } : tensor<1x1x6x7x16xf32> to tensor<1x1x8x9x16xf32>
  return %p : tensor<1x1x8x9x16xf32>
}

// -----

// A unit dimension that is padded is no unit dimension afterwards.
// CHECK-LABEL: @padded_itself
// CHECK: tensor.pad %{{.*}} low[0, 1, 0] high[0, 0, 0]
func.func @padded_itself(%x: tensor<5x4xf32>) -> tensor<10x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [5, 1, 4] : tensor<5x4xf32> into tensor<5x1x4xf32>
  %p = tensor.pad %e low[0, 1, 0] high[0, 0, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index):
    tensor.yield %z : f32
  } : tensor<5x1x4xf32> to tensor<5x2x4xf32>
  %c = tensor.collapse_shape %p [[0, 1], [2]] : tensor<5x2x4xf32> into tensor<10x4xf32>
  return %c : tensor<10x4xf32>
}
