// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fuse-chains="operations=1024" | FileCheck %s
// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fuse-chains="operations=1" | FileCheck %s --check-prefix=SLOW

// The hidden layer is large compared with the arithmetic: rows of the second product read rows of the first.
// CHECK: fuse-chain taken: {{[0-9]+}} slices in L2 take {{[0-9.]+}} us {{.*}}, one after another {{[0-9.]+}} us
// CHECK: func.func @main_group_0{{.*}}tessera.slices = "d0:{{[0-9]+}}"
// CHECK-NOT: main_group_1
// On a slow core arithmetic dominates either way.
// SLOW: fuse-chain declined: {{.*}} one after another {{[0-9.]+}} us
// SLOW: func.func @main_group_1
// SLOW-NOT: tessera.slices
func.func @main(%x: tensor<8192x32xf32>, %w: tensor<32x256xf32>, %v: tensor<256x32xf32>) -> tensor<8192x32xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8192x256xf32>) -> tensor<8192x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8192x32xf32>, tensor<32x256xf32>) outs(%f : tensor<8192x256xf32>) -> tensor<8192x256xf32>
  %r = linalg.tanh ins(%p : tensor<8192x256xf32>) outs(%e : tensor<8192x256xf32>) -> tensor<8192x256xf32>
  %g = tensor.empty() : tensor<8192x32xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  %q = linalg.matmul ins(%r, %v : tensor<8192x256xf32>, tensor<256x32xf32>) outs(%h : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  return %q : tensor<8192x32xf32>
}

// -----

// The intermediate is a model result as well.
// CHECK: fuse-chain declined: what lies between is read by 1 more
// CHECK-NOT: tessera.slices
// SLOW: fuse-chain declined: what lies between is read by 1 more
func.func @main(%x: tensor<8192x32xf32>, %w: tensor<32x256xf32>, %v: tensor<256x32xf32>) -> (tensor<8192x32xf32>, tensor<8192x256xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8192x256xf32>) -> tensor<8192x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8192x32xf32>, tensor<32x256xf32>) outs(%f : tensor<8192x256xf32>) -> tensor<8192x256xf32>
  %g = tensor.empty() : tensor<8192x32xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  %q = linalg.matmul ins(%p, %v : tensor<8192x256xf32>, tensor<256x32xf32>) outs(%h : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  return %q, %p : tensor<8192x32xf32>, tensor<8192x256xf32>
}

// -----

// The second product needs the whole intermediate for each row.
// CHECK: fuse-chain declined: {{.*}}right operand
// SLOW: fuse-chain declined: {{.*}}right operand
func.func @main(%x: tensor<512x32xf32>, %w: tensor<32x256xf32>, %v: tensor<64x512xf32>) -> tensor<64x256xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<512x256xf32>) -> tensor<512x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<512x32xf32>, tensor<32x256xf32>) outs(%f : tensor<512x256xf32>) -> tensor<512x256xf32>
  %g = tensor.empty() : tensor<64x256xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<64x256xf32>) -> tensor<64x256xf32>
  %q = linalg.matmul ins(%v, %p : tensor<64x512xf32>, tensor<512x256xf32>) outs(%h : tensor<64x256xf32>) -> tensor<64x256xf32>
  return %q : tensor<64x256xf32>
}

// -----

// A softmax over the dimension to slice: its rows stay whole, so only batches can be sliced.
// CHECK: fuse-chain taken
// CHECK: tessera.slices = "d0:{{[0-9]+}}"}
// SLOW: fuse-chain
func.func @main(%x: tensor<64x256x16xf32>, %w: tensor<64x16x256xf32>, %v: tensor<64x256x16xf32>) -> tensor<64x256x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x256x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x256x256xf32>) -> tensor<64x256x256xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<64x256x16xf32>, tensor<64x16x256xf32>) outs(%f : tensor<64x256x256xf32>) -> tensor<64x256x256xf32>
  // Sums along the sliced dimension itself: column sums of each matrix.
  %se = tensor.empty() : tensor<64x256xf32>
  %sf = linalg.fill ins(%z : f32) outs(%se : tensor<64x256xf32>) -> tensor<64x256xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, j, i)>, affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<64x256x256xf32>) outs(%sf : tensor<64x256xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<64x256xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<64x256x256xf32>, tensor<64x256xf32>) outs(%e : tensor<64x256x256xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %a = arith.divf %in, %sum : f32
    linalg.yield %a : f32
  } -> tensor<64x256x256xf32>
  %g = tensor.empty() : tensor<64x256x16xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<64x256x16xf32>) -> tensor<64x256x16xf32>
  %q = linalg.batch_matmul ins(%n, %v : tensor<64x256x256xf32>, tensor<64x256x16xf32>) outs(%h : tensor<64x256x16xf32>) -> tensor<64x256x16xf32>
  return %q : tensor<64x256x16xf32>
}
