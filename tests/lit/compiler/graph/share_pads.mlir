// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-share-pads -canonicalize | FileCheck %s

// The other reader reads a slice of the padded tensor, so that the producer writes only there.
// CHECK-LABEL: @also_read
// CHECK: %[[A:.*]] = linalg.generic
// CHECK: %[[P:.*]] = tensor.pad %[[A]] low[1, 1] high[2, 2]
// CHECK: %[[I:.*]] = tensor.extract_slice %[[P]][1, 1] [4, 8] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[I]]
func.func @also_read(%x: tensor<4x8xf32>) -> (tensor<7x11xf32>, tensor<4x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.log ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = tensor.pad %a low[1, 1] high[2, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<4x8xf32> to tensor<7x11xf32>
  return %p, %b : tensor<7x11xf32>, tensor<4x8xf32>
}

// -----

// The smaller of two paddings is a slice of the larger one.
// CHECK-LABEL: @two_amounts
// CHECK-COUNT-1: tensor.pad
// CHECK-NOT: tensor.pad
// CHECK: tensor.extract_slice %{{.*}}[1] [6] [1] : tensor<8xf32> to tensor<6xf32>
func.func @two_amounts(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  %q = tensor.pad %a low[2] high[2] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<8xf32>
  return %p, %q : tensor<6xf32>, tensor<8xf32>
}

// -----

// The smaller padding directly after the larger one is removed; the reader's slice comes after the larger one.
// CHECK-LABEL: @two_amounts_and_a_reader
// CHECK: %[[P:.*]] = tensor.pad %{{.*}} low[2] high[2]
// CHECK-DAG: tensor.extract_slice %[[P]][1] [6] [1] : tensor<8xf32> to tensor<6xf32>
// CHECK-DAG: %[[I:.*]] = tensor.extract_slice %[[P]][2] [4] [1] : tensor<8xf32> to tensor<4xf32>
// CHECK: linalg.generic {{.*}} ins(%[[I]]
func.func @two_amounts_and_a_reader(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<8xf32>, tensor<4xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = tensor.pad %a low[2] high[2] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<8xf32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  %b = linalg.log ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %p, %q, %b : tensor<6xf32>, tensor<8xf32>, tensor<4xf32>
}

// -----

// Padded with zero for one reader, with minus infinity for another: neither holds the other's border.
// CHECK-LABEL: @two_values
// CHECK-COUNT-2: tensor.pad
// CHECK-NOT: tensor.extract_slice
func.func @two_values(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<8xf32>) {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  %q = tensor.pad %a low[2] high[2] {
  ^bb0(%i: index):
    tensor.yield %n : f32
  } : tensor<4xf32> to tensor<8xf32>
  return %p, %q : tensor<6xf32>, tensor<8xf32>
}

// -----

// A result of the model must be dense in the caller's buffer.
// CHECK-LABEL: @returned
// CHECK-NOT: tensor.extract_slice
func.func @returned(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  return %a, %p : tensor<4xf32>, tensor<6xf32>
}

// -----

// An input is in the caller's buffer: padding it is a copy in any case.
// CHECK-LABEL: @input
// CHECK-NOT: tensor.extract_slice
func.func @input(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  return %a, %p : tensor<4xf32>, tensor<6xf32>
}

// -----

// An empty tensor has no interior to slice.
// CHECK-LABEL: @nothing
// CHECK-NOT: tensor.extract_slice
func.func @nothing(%x: tensor<0x5xf32>) -> (tensor<0x8xf32>, tensor<0x5xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<0x5xf32>
  %a = linalg.exp ins(%x : tensor<0x5xf32>) outs(%e : tensor<0x5xf32>) -> tensor<0x5xf32>
  %p = tensor.pad %a low[0, 0] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<0x5xf32> to tensor<0x8xf32>
  %b = linalg.log ins(%a : tensor<0x5xf32>) outs(%e : tensor<0x5xf32>) -> tensor<0x5xf32>
  return %p, %b : tensor<0x8xf32>, tensor<0x5xf32>
}
