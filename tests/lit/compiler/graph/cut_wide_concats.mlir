// RUN: tessera-opt %s -split-input-file -tessera-cut-wide-concats | FileCheck %s

// 33 operands: the first 32 are concatenated, then the last one is appended.
// CHECK-LABEL: @one_more
// CHECK: %[[FIRST:.*]] = tensor.concat dim(1) %arg0, {{.*}}, %arg31 : {{.*}} -> tensor<2x96xf32>
// CHECK-NEXT: %[[ALL:.*]] = tensor.concat dim(1) %[[FIRST]], %arg32 :
// CHECK-NEXT: return %[[ALL]]
func.func @one_more(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>, %a8: tensor<2x3xf32>, %a9: tensor<2x3xf32>, %a10: tensor<2x3xf32>, %a11: tensor<2x3xf32>, %a12: tensor<2x3xf32>, %a13: tensor<2x3xf32>, %a14: tensor<2x3xf32>, %a15: tensor<2x3xf32>, %a16: tensor<2x3xf32>, %a17: tensor<2x3xf32>, %a18: tensor<2x3xf32>, %a19: tensor<2x3xf32>, %a20: tensor<2x3xf32>, %a21: tensor<2x3xf32>, %a22: tensor<2x3xf32>, %a23: tensor<2x3xf32>, %a24: tensor<2x3xf32>, %a25: tensor<2x3xf32>, %a26: tensor<2x3xf32>, %a27: tensor<2x3xf32>, %a28: tensor<2x3xf32>, %a29: tensor<2x3xf32>, %a30: tensor<2x3xf32>, %a31: tensor<2x3xf32>, %a32: tensor<2x3xf32>) -> tensor<2x99xf32> {
  %y = tensor.concat dim(1) %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29, %a30, %a31, %a32 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x99xf32>
  return %y : tensor<2x99xf32>
}

// -----

// 32 operands stay one concatenation.
// CHECK-LABEL: @at_most
// CHECK-COUNT-1: tensor.concat
// CHECK-NOT: tensor.concat
func.func @at_most(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>, %a8: tensor<2x3xf32>, %a9: tensor<2x3xf32>, %a10: tensor<2x3xf32>, %a11: tensor<2x3xf32>, %a12: tensor<2x3xf32>, %a13: tensor<2x3xf32>, %a14: tensor<2x3xf32>, %a15: tensor<2x3xf32>, %a16: tensor<2x3xf32>, %a17: tensor<2x3xf32>, %a18: tensor<2x3xf32>, %a19: tensor<2x3xf32>, %a20: tensor<2x3xf32>, %a21: tensor<2x3xf32>, %a22: tensor<2x3xf32>, %a23: tensor<2x3xf32>, %a24: tensor<2x3xf32>, %a25: tensor<2x3xf32>, %a26: tensor<2x3xf32>, %a27: tensor<2x3xf32>, %a28: tensor<2x3xf32>, %a29: tensor<2x3xf32>, %a30: tensor<2x3xf32>, %a31: tensor<2x3xf32>) -> tensor<2x96xf32> {
  %y = tensor.concat dim(1) %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29, %a30, %a31 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x96xf32>
  return %y : tensor<2x96xf32>
}
