// RUN: tessera-opt %s -split-input-file -tessera-round-products | FileCheck %s

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>

// Both operands are rounded; a sum that reads the same activation reads the rounded one too.
// CHECK-LABEL: func @shared_activation
// CHECK: %[[EXP:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<5x8xf32>)
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<5x8xbf16>, tensor<8x8xbf16>) outs(%{{.*}} : tensor<5x8xf32>)
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.addf %{{.*}} : f32
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<5x8xbf16>) outs(%{{.*}} : tensor<5x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[WIDE]] : tensor<5x8xf32>, tensor<5x8xf32>)
func.func @shared_activation(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %w = arith.constant dense<3.0> : tensor<8x8xf32>
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x8xf32>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %p = math.exp %v : f32
    linalg.yield %p : f32
  } -> tensor<5x8xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<5x8xf32>, tensor<8x8xf32>) outs(%z : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %m = arith.mulf %l, %r : f32
    %n = arith.addf %s, %m : f32
    linalg.yield %n : f32
  } -> tensor<5x8xf32>
  %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %a : tensor<5x8xf32>, tensor<5x8xf32>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %n = arith.addf %l, %r : f32
    linalg.yield %n : f32
  } -> tensor<5x8xf32>
  return %t : tensor<5x8xf32>
}

// -----

// Two activations: not rounded.
// CHECK-LABEL: func @two_activations
// CHECK-NOT: bf16
// CHECK: return
func.func @two_activations(%x: tensor<5x8xf32>, %w: tensor<8x8xf32>) -> tensor<5x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x8xf32>, tensor<8x8xf32>) outs(%z : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %m = arith.mulf %l, %r : f32
    %n = arith.addf %s, %m : f32
    linalg.yield %n : f32
  } -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}

// -----

// Padded with zeros: rounded before the padding.
// CHECK-LABEL: func @padded
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: tensor.pad {{.*}}
// CHECK: tensor<1x4x9xbf16> to tensor<1x4x11xbf16>
func.func @padded(%x: tensor<1x4x9xf32>) -> tensor<1x8x9xf32> {
  %w = arith.constant dense<3.0> : tensor<8x4x3xf32>
  %c0 = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1] high[0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %c0 : f32
  } : tensor<1x4x9xf32> to tensor<1x4x11xf32>
  %e = tensor.empty() : tensor<1x8x9xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<1x8x9xf32>) -> tensor<1x8x9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, x, c, k) -> (n, c, x + k)>, affine_map<(n, f, x, c, k) -> (f, c, k)>, affine_map<(n, f, x, c, k) -> (n, f, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<1x4x11xf32>, tensor<8x4x3xf32>) outs(%z : tensor<1x8x9xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %m = arith.mulf %l, %r : f32
    %n = arith.addf %s, %m : f32
    linalg.yield %n : f32
  } -> tensor<1x8x9xf32>
  return %y : tensor<1x8x9xf32>
}
