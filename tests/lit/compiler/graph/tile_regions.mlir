// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fuse-chains="near=262144" | FileCheck %s

// Normalized rows and a thin product: little arithmetic, and more data than the core's cache holds. Slice by slice the
// rows never leave it.
// CHECK: tile-region taken: 2 groups in {{[0-9]+}} slices of {{[0-9]+}}x{{[0-9]+}} in L2
// CHECK: func.func @main_group_0{{.*}}tessera.slices = "d0:{{[0-9]+}}"
// CHECK-NOT: main_group_1
// CHECK-NOT: {{concat|insert_slice}}
func.func @main(%x: tensor<8192x64xf32>, %w: tensor<64x16xf32>) -> tensor<8192x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192x64xf32>
  %se = tensor.empty() : tensor<8192xf32>
  %sf = linalg.fill ins(%z : f32) outs(%se : tensor<8192xf32>) -> tensor<8192xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8192x64xf32>) outs(%sf : tensor<8192xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<8192xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<8192x64xf32>, tensor<8192xf32>) outs(%e : tensor<8192x64xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %a = arith.divf %in, %sum : f32
    linalg.yield %a : f32
  } -> tensor<8192x64xf32>
  %g = tensor.empty() : tensor<8192x16xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8192x16xf32>) -> tensor<8192x16xf32>
  %q = linalg.matmul ins(%n, %w : tensor<8192x64xf32>, tensor<64x16xf32>) outs(%h : tensor<8192x16xf32>) -> tensor<8192x16xf32>
  return %q : tensor<8192x16xf32>
}

// -----

// A sum over the whole map ends a region: its one row leaves nothing to slice.
// CHECK-NOT: tile-region taken
// CHECK: func.func @main_group_0
// CHECK-NOT: tessera.slices
// CHECK: func.func @main_group_1
// CHECK-NOT: tessera.slices
func.func @main(%x: tensor<8192x64xf32>, %w: tensor<64x16xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<8192x16xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8192x16xf32>) -> tensor<8192x16xf32>
  %q = linalg.matmul ins(%x, %w : tensor<8192x64xf32>, tensor<64x16xf32>) outs(%h : tensor<8192x16xf32>) -> tensor<8192x16xf32>
  %se = tensor.empty() : tensor<f32>
  %sf = linalg.fill ins(%z : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%q : tensor<8192x16xf32>) outs(%sf : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
