// Both halves of a concatenation are written to their final place, in parallel in one phase.
// RUN: tessera-opt %s --tessera-emit | FileCheck %s
// RUN: tessera-opt %s --tessera-emit --tessera-lower | FileCheck %s --check-prefix=LLVM

// CHECK: tessera.workspace_bytes = 0
// CHECK: func.func @cat_p0(
// CHECK-SAME: tessera.strategy = "elementwise"
// CHECK-NOT: @cat_p1

// LLVM: llvm.func internal @cat_p0_body(
// LLVM: llvm.func @cat_p0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)

func.func @cat(%x: tensor<4x32xf32>, %y: tensor<4x16xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<4x32xf32>
  %n = linalg.negf ins(%x : tensor<4x32xf32>) outs(%e : tensor<4x32xf32>) -> tensor<4x32xf32>
  %c = tensor.concat dim(1) %n, %y : (tensor<4x32xf32>, tensor<4x16xf32>) -> tensor<4x48xf32>
  return %c : tensor<4x48xf32>
}
