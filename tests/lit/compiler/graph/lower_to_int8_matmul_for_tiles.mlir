// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-narrow-products=target=sapphirerapids -tessera-fold-constants -tessera-remove-dead-code -canonicalize | FileCheck %s

// Tiles accept all signs: no sign bits are flipped if half of a tile is filled.
// CHECK-LABEL: func @half_a_tile
// CHECK-NOT: arith.xori
// CHECK: arith.extsi
// CHECK-NEXT: arith.extsi
// CHECK-NEXT: arith.muli
func.func @half_a_tile(%x: tensor<8x32xi8>) -> tensor<8x8xi32> {
  %w = arith.constant dense<3> : tensor<32x8xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x8xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<8x8xi32>) -> tensor<8x8xi32>
  %wide_x = tensor.empty() : tensor<8x32xi32>
  %wide_w = tensor.empty() : tensor<32x8xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xi8>) outs(%wide_x : tensor<8x32xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<8x32xi32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<32x8xi8>) outs(%wide_w : tensor<32x8xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<32x8xi32>
  %y = linalg.matmul ins(%a, %b : tensor<8x32xi32>, tensor<32x8xi32>) outs(%zero : tensor<8x8xi32>) -> tensor<8x8xi32>
  return %y : tensor<8x8xi32>
}

// -----

// Products that fill less of a tile run on vectors: the operands get the form of that instruction.
// CHECK-LABEL: func @few_rows
// CHECK: arith.xori
// CHECK: arith.extui
func.func @few_rows(%x: tensor<7x256xi8>) -> tensor<7x64xi32> {
  %w = arith.constant dense<3> : tensor<256x64xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<7x64xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<7x64xi32>) -> tensor<7x64xi32>
  %wide_x = tensor.empty() : tensor<7x256xi32>
  %wide_w = tensor.empty() : tensor<256x64xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<7x256xi8>) outs(%wide_x : tensor<7x256xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<7x256xi32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<256x64xi8>) outs(%wide_w : tensor<256x64xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<256x64xi32>
  %y = linalg.matmul ins(%a, %b : tensor<7x256xi32>, tensor<256x64xi32>) outs(%zero : tensor<7x64xi32>) -> tensor<7x64xi32>
  return %y : tensor<7x64xi32>
}

// -----

// CHECK-LABEL: func @few_columns
// CHECK: arith.xori
// CHECK: arith.extui
func.func @few_columns(%x: tensor<64x256xi8>) -> tensor<64x7xi32> {
  %w = arith.constant dense<3> : tensor<256x7xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x7xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<64x7xi32>) -> tensor<64x7xi32>
  %wide_x = tensor.empty() : tensor<64x256xi32>
  %wide_w = tensor.empty() : tensor<256x7xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x256xi8>) outs(%wide_x : tensor<64x256xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<64x256xi32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<256x7xi8>) outs(%wide_w : tensor<256x7xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<256x7xi32>
  %y = linalg.matmul ins(%a, %b : tensor<64x256xi32>, tensor<256x7xi32>) outs(%zero : tensor<64x7xi32>) -> tensor<64x7xi32>
  return %y : tensor<64x7xi32>
}

// -----

// CHECK-LABEL: func @short_sum
// CHECK: arith.xori
// CHECK: arith.extui
func.func @short_sum(%x: tensor<64x28xi8>) -> tensor<64x64xi32> {
  %w = arith.constant dense<3> : tensor<28x64xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %wide_x = tensor.empty() : tensor<64x28xi32>
  %wide_w = tensor.empty() : tensor<28x64xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x28xi8>) outs(%wide_x : tensor<64x28xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<64x28xi32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<28x64xi8>) outs(%wide_w : tensor<28x64xi32>) {
  ^bb0(%in: i8, %out: i32):
    %q = arith.extsi %in : i8 to i32
    linalg.yield %q : i32
  } -> tensor<28x64xi32>
  %y = linalg.matmul ins(%a, %b : tensor<64x28xi32>, tensor<28x64xi32>) outs(%zero : tensor<64x64xi32>) -> tensor<64x64xi32>
  return %y : tensor<64x64xi32>
}
