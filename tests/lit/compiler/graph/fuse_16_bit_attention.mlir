// RUN: tessera-opt %s -split-input-file -tessera-interleave-bytes=target=znver4 -tessera-interleave-halves=target=znver4 -tessera-fold-constants -tessera-fuse-chains="operations=64" | FileCheck %s

// Both products of a bf16 attention form one chain, which interleaves values where it reads them, one head a slice.
// Passes over the rows of several heads would go through L2.
// CHECK: fuse-chain taken: 12 slices in L2 take
// CHECK: func.func @main_group_0{{.*}}tessera.slices = "d0:1"
// CHECK: tensor<12x64x64x2xbf16>
// CHECK-NOT: main_group_1
func.func @main(%q: tensor<12x128x64xbf16>, %k: tensor<12x128x64xbf16>, %v: tensor<12x128x64xbf16>) -> tensor<12x128x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<12x128x128xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<12x128x128xf32>) -> tensor<12x128x128xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<12x128x64xbf16>, tensor<12x128x64xbf16>) outs(%z : tensor<12x128x128xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<12x128x128xf32>
  %re = tensor.empty() : tensor<12x128xf32>
  %rl = linalg.fill ins(%low : f32) outs(%re : tensor<12x128xf32>) -> tensor<12x128xf32>
  %max = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<12x128x128xf32>) outs(%rl : tensor<12x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<12x128xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<12x128x128xf32>, tensor<12x128xf32>) outs(%e : tensor<12x128x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<12x128x128xf32>
  %rz = linalg.fill ins(%c0 : f32) outs(%re : tensor<12x128xf32>) -> tensor<12x128xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<12x128x128xf32>) outs(%rz : tensor<12x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<12x128xf32>
  %f = tensor.empty() : tensor<12x128x128xbf16>
  %w = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<12x128x128xf32>, tensor<12x128xf32>) outs(%f : tensor<12x128x128xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %d = arith.divf %a, %b : f32
    %r = arith.truncf %d : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<12x128x128xbf16>
  %g = tensor.empty() : tensor<12x128x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<12x128x64xf32>) -> tensor<12x128x64xf32>
  %out = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<12x128x128xbf16>, tensor<12x128x64xbf16>) outs(%h : tensor<12x128x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<12x128x64xf32>
  return %out : tensor<12x128x64xf32>
}

// -----

// Rows with an odd number of weights are padded within the slices.
// CHECK: fuse-chain taken: 12 slices in L2 take
// CHECK: tessera.slices = "d0:1"
// CHECK: tensor.pad
func.func @main(%q: tensor<12x197x64xbf16>, %k: tensor<12x197x64xbf16>, %v: tensor<12x197x64xbf16>) -> tensor<12x197x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<12x197x197xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<12x197x197xf32>) -> tensor<12x197x197xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<12x197x64xbf16>, tensor<12x197x64xbf16>) outs(%z : tensor<12x197x197xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<12x197x197xf32>
  %re = tensor.empty() : tensor<12x197xf32>
  %rl = linalg.fill ins(%low : f32) outs(%re : tensor<12x197xf32>) -> tensor<12x197xf32>
  %max = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<12x197x197xf32>) outs(%rl : tensor<12x197xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<12x197xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<12x197x197xf32>, tensor<12x197xf32>) outs(%e : tensor<12x197x197xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<12x197x197xf32>
  %rz = linalg.fill ins(%c0 : f32) outs(%re : tensor<12x197xf32>) -> tensor<12x197xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<12x197x197xf32>) outs(%rz : tensor<12x197xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<12x197xf32>
  %f = tensor.empty() : tensor<12x197x197xbf16>
  %w = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<12x197x197xf32>, tensor<12x197xf32>) outs(%f : tensor<12x197x197xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %d = arith.divf %a, %b : f32
    %r = arith.truncf %d : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<12x197x197xbf16>
  %g = tensor.empty() : tensor<12x197x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<12x197x64xf32>) -> tensor<12x197x64xf32>
  %out = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<12x197x197xbf16>, tensor<12x197x64xbf16>) outs(%h : tensor<12x197x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<12x197x64xf32>
  return %out : tensor<12x197x64xf32>
}

// -----

// Perceptron layers stay with their instruction, because their weights are interleaved at compile time.
// CHECK-NOT: fuse-chain
// CHECK: func.func @main(
func.func @main(%q: tensor<512x64xbf16>) -> tensor<512x64xf32> {
  %c0 = arith.constant 0.0 : f32
  %u = arith.constant dense<1.0> : tensor<64x128xbf16>
  %v = arith.constant dense<2.0> : tensor<128x64xbf16>
  %e = tensor.empty() : tensor<512x128xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %u : tensor<512x64xbf16>, tensor<64x128xbf16>) outs(%z : tensor<512x128xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<512x128xf32>
  %f = tensor.empty() : tensor<512x128xbf16>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<512x128xf32>) outs(%f : tensor<512x128xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<512x128xbf16>
  %g = tensor.empty() : tensor<512x64xf32>
  %h = linalg.fill ins(%c0 : f32) outs(%g : tensor<512x64xf32>) -> tensor<512x64xf32>
  %out = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<512x128xbf16>, tensor<128x64xbf16>) outs(%h : tensor<512x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %x = arith.extf %a : bf16 to f32
    %y = arith.extf %b : bf16 to f32
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<512x64xf32>
  return %out : tensor<512x64xf32>
}
