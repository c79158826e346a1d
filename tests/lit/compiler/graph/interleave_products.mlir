// RUN: tessera-opt %s -split-input-file -tessera-interleave-bytes=target=znver4 -tessera-interleave-halves=target=znver4 | FileCheck %s --check-prefix=GROUPS
// RUN: tessera-opt %s -split-input-file -tessera-multiply-exactly-in-single | FileCheck %s --check-prefix=SINGLE

// Four neighbours along the reduction are adjacent in the weights.
// GROUPS-LABEL: func @whole_groups
// GROUPS-NOT: tensor.pad
// GROUPS: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<5x2x4xi8>, tensor<2x32x4xi8>)
// GROUPS: return
// Sums up to 8 * 255 * 128 are exact in single precision.
// SINGLE-LABEL: func @whole_groups
// SINGLE-DAG: arith.uitofp %{{.*}} : i8 to f32
// SINGLE-DAG: arith.sitofp %{{.*}} : i8 to f32
// SINGLE: arith.mulf
// SINGLE: arith.fptosi
func.func @whole_groups(%x: tensor<5x8xi8>) -> tensor<5x32xi32> {
  %w = arith.constant dense<3> : tensor<8x32xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x32xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<5x32xi32>) -> tensor<5x32xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x8xi8>, tensor<8x32xi8>) outs(%z : tensor<5x32xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %p = arith.extui %a : i8 to i32
    %q = arith.extsi %b : i8 to i32
    %m = arith.muli %p, %q : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<5x32xi32>
  return %y : tensor<5x32xi32>
}

// -----

// The last group is padded with zeros.
// GROUPS-LABEL: func @a_group_that_is_not_full
// GROUPS-COUNT-2: tensor.pad
// GROUPS: ins(%{{.*}}, %{{.*}} : tensor<5x2x4xi8>, tensor<2x32x4xi8>)
func.func @a_group_that_is_not_full(%x: tensor<5x6xi8>) -> tensor<5x32xi32> {
  %w = arith.constant dense<3> : tensor<6x32xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x32xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<5x32xi32>) -> tensor<5x32xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x6xi8>, tensor<6x32xi8>) outs(%z : tensor<5x32xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %p = arith.extui %a : i8 to i32
    %q = arith.extsi %b : i8 to i32
    %m = arith.muli %p, %q : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<5x32xi32>
  return %y : tensor<5x32xi32>
}

// -----

// If both operands had flipped sign bits, each padded zero would add 128 * 128.
// GROUPS-LABEL: func @turned_on_both_sides
// GROUPS-NOT: tensor.pad
// GROUPS: return
func.func @turned_on_both_sides(%x: tensor<5x6xi8>) -> tensor<5x32xi32> {
  %w = arith.constant dense<3> : tensor<6x32xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x32xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<5x32xi32>) -> tensor<5x32xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x6xi8>, tensor<6x32xi8>) outs(%z : tensor<5x32xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %bit = arith.constant -128 : i8
    %f = arith.xori %a, %bit : i8
    %g = arith.xori %b, %bit : i8
    %p = arith.extui %f : i8 to i32
    %q = arith.extui %g : i8 to i32
    %m = arith.muli %p, %q : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<5x32xi32>
  return %y : tensor<5x32xi32>
}

// -----

// Sums up to 600 * 255 * 128 exceed the integers that single precision holds.
// SINGLE-LABEL: func @long_sums
// SINGLE-NOT: arith.mulf
// SINGLE: arith.muli
// SINGLE-NOT: arith.mulf
// SINGLE: return
func.func @long_sums(%x: tensor<5x600xi8>) -> tensor<5x32xi32> {
  %w = arith.constant dense<3> : tensor<600x32xi8>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x32xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<5x32xi32>) -> tensor<5x32xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x600xi8>, tensor<600x32xi8>) outs(%z : tensor<5x32xi32>) {
  ^bb0(%a: i8, %b: i8, %o: i32):
    %p = arith.extui %a : i8 to i32
    %q = arith.extsi %b : i8 to i32
    %m = arith.muli %p, %q : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<5x32xi32>
  return %y : tensor<5x32xi32>
}

// -----

// Two neighbours for bf16; sums stay in single precision.
// GROUPS-LABEL: func @pairs_of_halves
// GROUPS: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<5x4x2xbf16>, tensor<4x32x2xbf16>) outs(%{{.*}} : tensor<5x32xf32>)
func.func @pairs_of_halves(%x: tensor<5x8xbf16>) -> tensor<5x32xf32> {
  %w = arith.constant dense<3.0> : tensor<8x32xbf16>
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x32xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<5x32xf32>) -> tensor<5x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x8xbf16>, tensor<8x32xbf16>) outs(%z : tensor<5x32xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %r = arith.addf %s, %m : f32
    linalg.yield %r : f32
  } -> tensor<5x32xf32>
  return %y : tensor<5x32xf32>
}

// -----

// An odd number of steps is padded; there is no instruction for f16.
// GROUPS-LABEL: func @odd_halves
// GROUPS: tensor.pad
// GROUPS: ins(%{{.*}}, %{{.*}} : tensor<5x4x2xbf16>, tensor<4x32x2xbf16>)
// GROUPS: ins(%{{.*}}, %{{.*}} : tensor<5x8xf16>, tensor<8x32xf16>)
func.func @odd_halves(%x: tensor<5x7xbf16>, %h: tensor<5x8xf16>) -> (tensor<5x32xf32>, tensor<5x32xf32>) {
  %w = arith.constant dense<3.0> : tensor<7x32xbf16>
  %v = arith.constant dense<3.0> : tensor<8x32xf16>
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x32xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<5x32xf32>) -> tensor<5x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x7xbf16>, tensor<7x32xbf16>) outs(%z : tensor<5x32xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %r = arith.addf %s, %m : f32
    linalg.yield %r : f32
  } -> tensor<5x32xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %v : tensor<5x8xf16>, tensor<8x32xf16>) outs(%z : tensor<5x32xf32>) {
  ^bb0(%a: f16, %b: f16, %s: f32):
    %p = arith.extf %a : f16 to f32
    %q = arith.extf %b : f16 to f32
    %m = arith.mulf %p, %q : f32
    %r = arith.addf %s, %m : f32
    linalg.yield %r : f32
  } -> tensor<5x32xf32>
  return %y, %u : tensor<5x32xf32>, tensor<5x32xf32>
}

// -----

// Attention: values are copied for many rows of weights; queries and keys have adjacent neighbours already.
// GROUPS-LABEL: func @values_of_attention
// GROUPS-NOT: tensor.expand_shape
// GROUPS: ins(%{{.*}}, %{{.*}} : tensor<2x96x64xbf16>, tensor<2x80x64xbf16>)
// GROUPS: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2], [3]] output_shape [2, 40, 2, 64]
// GROUPS: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x40x64x2xbf16>)
// GROUPS: tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3]] output_shape [2, 96, 40, 2]
// GROUPS: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<2x96x40x2xbf16>, tensor<2x40x64x2xbf16>)
func.func @values_of_attention(%q: tensor<2x96x64xbf16>, %k: tensor<2x80x64xbf16>, %v: tensor<2x80x64xbf16>) -> tensor<2x96x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x96x80xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<2x96x80xf32>) -> tensor<2x96x80xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<2x96x64xbf16>, tensor<2x80x64xbf16>) outs(%z : tensor<2x96x80xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x96x80xf32>
  %f = tensor.empty() : tensor<2x96x80xbf16>
  %w = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x96x80xf32>) outs(%f : tensor<2x96x80xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %t = arith.truncf %a : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<2x96x80xbf16>
  %g = tensor.empty() : tensor<2x96x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<2x96x64xf32>) -> tensor<2x96x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<2x96x80xbf16>, tensor<2x80x64xbf16>) outs(%h : tensor<2x96x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %c = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %c : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x96x64xf32>
  return %y : tensor<2x96x64xf32>
}

// -----

// With few rows the copies cost more than they gain.
// GROUPS-LABEL: func @values_of_one_row
// GROUPS-NOT: tensor.expand_shape
// GROUPS: return
func.func @values_of_one_row(%w: tensor<2x1x512xbf16>, %v: tensor<2x512x64xbf16>) -> tensor<2x1x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<2x1x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<2x1x64xf32>) -> tensor<2x1x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<2x1x512xbf16>, tensor<2x512x64xbf16>) outs(%h : tensor<2x1x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %c = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %c : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x1x64xf32>
  return %y : tensor<2x1x64xf32>
}

// -----

// The last key of an odd number has no neighbour.
// GROUPS-LABEL: func @odd_number_of_keys
// GROUPS-COUNT-2: tensor.pad
// GROUPS: ins(%{{.*}}, %{{.*}} : tensor<12x197x99x2xbf16>, tensor<12x99x64x2xbf16>)
func.func @odd_number_of_keys(%w: tensor<12x197x197xbf16>, %v: tensor<12x197x64xbf16>) -> tensor<12x197x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<12x197x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<12x197x64xf32>) -> tensor<12x197x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<12x197x197xbf16>, tensor<12x197x64xbf16>) outs(%h : tensor<12x197x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %c = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %c : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<12x197x64xf32>
  return %y : tensor<12x197x64xf32>
}
