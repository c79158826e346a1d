// RUN: tessera-opt %s -split-input-file -tessera-widen-products=target=haswell | FileCheck %s
// RUN: tessera-opt %s -split-input-file -tessera-widen-products=target=haswell -tessera-interleave-bytes=target=znver4 -tessera-interleave-halves=target=znver4 | FileCheck %s --check-prefix=PAIRS

// Weights with many wide pairs: both operands become 16 bits, and the padding moves after the conversion.
// CHECK-LABEL: func @wide_weights
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<1000x254xi8>) outs(%{{.*}} : tensor<1000x254xi16>)
// CHECK: arith.extui %{{.*}} : i8 to i16
// CHECK: tensor.pad
// CHECK: tensor<1000x254xi16> to tensor<1000x256xi16>
// CHECK: arith.extsi %{{.*}} : i8 to i16
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1000x256xi16>, tensor<256x512xi16>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: i16, %[[W:.*]]: i16, %[[O:.*]]: i32)
// CHECK-DAG: arith.extsi %[[X]] : i16 to i32
// CHECK-DAG: arith.extsi %[[W]] : i16 to i32
// CHECK: arith.muli
// CHECK: arith.addi %[[O]]
// PAIRS-LABEL: func @wide_weights
// PAIRS: ins(%{{.*}}, %{{.*}} : tensor<1000x128x2xi16>, tensor<128x512x2xi16>)
func.func @wide_weights(%x: tensor<1000x254xi8>) -> tensor<1000x512xi32> {
  %w = arith.constant dense<100> : tensor<256x512xi8>
  %zero = arith.constant 0 : i8
  %p = tensor.pad %x low[0, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : i8
  } : tensor<1000x254xi8> to tensor<1000x256xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1000x512xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<1000x512xi32>) -> tensor<1000x512xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %w : tensor<1000x256xi8>, tensor<256x512xi8>) outs(%z : tensor<1000x512xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %q = arith.extui %a : i8 to i32
    %r = arith.extsi %b : i8 to i32
    %m = arith.muli %q, %r : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<1000x512xi32>
  return %y : tensor<1000x512xi32>
}

// -----

// No pair of these can saturate: they keep the instruction that sums pairs of bytes.
// CHECK-LABEL: func @narrow_weights
// CHECK-NOT: i16
// CHECK: return
func.func @narrow_weights(%x: tensor<1000x256xi8>) -> tensor<1000x512xi32> {
  %w = arith.constant dense<64> : tensor<256x512xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1000x512xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<1000x512xi32>) -> tensor<1000x512xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1000x256xi8>, tensor<256x512xi8>) outs(%z : tensor<1000x512xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %q = arith.extui %a : i8 to i32
    %r = arith.extsi %b : i8 to i32
    %m = arith.muli %q, %r : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<1000x512xi32>
  return %y : tensor<1000x512xi32>
}

// -----

// A single row reads each weight once: reading twice the bytes costs more than the multiplications gain.
// CHECK-LABEL: func @one_row
// CHECK-NOT: i16
// CHECK: return
func.func @one_row(%x: tensor<1x4096xi8>) -> tensor<1x4096xi32> {
  %w = arith.constant dense<100> : tensor<4096x4096xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x4096xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<1x4096xi32>) -> tensor<1x4096xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x4096xi8>, tensor<4096x4096xi8>) outs(%z : tensor<1x4096xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %q = arith.extui %a : i8 to i32
    %r = arith.extsi %b : i8 to i32
    %m = arith.muli %q, %r : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x4096xi32>
  return %y : tensor<1x4096xi32>
}

// -----

// Signed activations whose sign bit the product flips first: the conversion flips it.
// CHECK-LABEL: func @turned_activations
// CHECK: arith.xori
// CHECK: arith.extui %{{.*}} : i8 to i16
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1000x256xi16>, tensor<256x512xi16>)
// CHECK-NOT: arith.xori
// CHECK: return
func.func @turned_activations(%x: tensor<1000x256xi8>) -> tensor<1000x512xi32> {
  %w = arith.constant dense<100> : tensor<256x512xi8>
  %bit = arith.constant -128 : i8
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1000x512xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<1000x512xi32>) -> tensor<1000x512xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1000x256xi8>, tensor<256x512xi8>) outs(%z : tensor<1000x512xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %t = arith.xori %a, %bit : i8
    %q = arith.extui %t : i8 to i32
    %r = arith.extsi %b : i8 to i32
    %m = arith.muli %q, %r : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<1000x512xi32>
  return %y : tensor<1000x512xi32>
}
