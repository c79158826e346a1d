// Operations that the vector emitter does not cover are reported. LLVM vectorizes their loops, which needs buffers
// without aliases: all are, except those read and written at the same places, which may be one buffer.
// RUN: tessera-opt %s -split-input-file --tessera-emit | FileCheck %s
// CHECK: func.func private @gather_p0_body({{.*}}: !llvm.ptr {llvm.noalias}, {{.*}}: !llvm.ptr {llvm.noalias}, {{.*}}: !llvm.ptr {llvm.noalias})
// CHECK: func.func @gather_p0(
// CHECK-SAME: tessera.strategy = "scalar-loops"

func.func @gather(%table: tensor<9x20xf32>, %which: tensor<4xi64>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<4x20xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%which : tensor<4xi64>) outs(%e : tensor<4x20xf32>) {
    ^bb0(%w: i64, %o: f32):
      %i = arith.index_cast %w : i64 to index
      %j = linalg.index 1 : index
      %v = tensor.extract %table[%i, %j] : tensor<9x20xf32>
      linalg.yield %v : f32
  } -> tensor<4x20xf32>
  return %r : tensor<4x20xf32>
}

// -----

// The result may overwrite the first operand, not the second.
// CHECK: func.func private @bias_p0_body({{[^,]*}}: i64, {{[^,]*}}: i64, {{[^,]*}}: !llvm.ptr, {{[^,]*}}: !llvm.ptr {llvm.noalias}, {{[^,]*}}: !llvm.ptr)
func.func @bias(%x: tensor<4x32xf32>, %b: tensor<32xf32>) -> tensor<4x32xf32> {
  %e = tensor.empty() : tensor<4x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<4x32xf32>, tensor<32xf32>) outs(%e : tensor<4x32xf32>) {
    ^bb0(%v: f32, %w: f32, %o: f32):
      %s = arith.addf %v, %w : f32
      linalg.yield %s : f32
  } -> tensor<4x32xf32>
  return %r : tensor<4x32xf32>
}
