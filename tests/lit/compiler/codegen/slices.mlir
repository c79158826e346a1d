// Two products slice by slice, as the product compiles them: decided, printed, parsed, applied.
// RUN: tessera-opt %s --tessera-emit="slices=d0/8" | FileCheck %s
// RUN: not tessera-opt %s --tessera-emit="slices=d7/8" 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not tessera-opt %s --tessera-emit="slices=d0/16,d0/8" 2>&1 | FileCheck %s --check-prefix=APART

// One phase over five slices of eight rows; the intermediate is thread-local.
// CHECK: module attributes {tessera.workspace_bytes = 0
// CHECK: func.func private @chain_p0_body(
// CHECK: scf.for
// CHECK-NOT: @chain_p1_body
// CHECK: func.func @chain_p0(%{{.*}}) attributes {tessera.grid = 5 : i64, tessera.strategy = "region of 2 nests, 5 slices of 8x20
// WRONG: "d7" names no dimension of the first result
// APART: slices along d0 follow each other, and share no rows to keep
func.func @chain(%a: tensor<40x16xf32>, %b: tensor<16x24xf32>, %c: tensor<24x20xf32>) -> tensor<40x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<40x24xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<40x24xf32>) -> tensor<40x24xf32>
  %p = linalg.matmul ins(%a, %b : tensor<40x16xf32>, tensor<16x24xf32>) outs(%f0 : tensor<40x24xf32>) -> tensor<40x24xf32>
  %e1 = tensor.empty() : tensor<40x20xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<40x20xf32>) -> tensor<40x20xf32>
  %q = linalg.matmul ins(%p, %c : tensor<40x24xf32>, tensor<24x20xf32>) outs(%f1 : tensor<40x20xf32>) -> tensor<40x20xf32>
  return %q : tensor<40x20xf32>
}
