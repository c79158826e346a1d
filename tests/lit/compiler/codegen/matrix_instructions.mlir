// A product of bytes on an instruction that multiplies two rows by two columns. A register of rows is joined from two rows
// of two steps each, a register of columns from the vectors of two steps. Sums stay in the instruction's layout while the
// sum runs. The last row and the last step are single: zeros fill the rest of their registers.
// RUN: tessera-opt %s --tessera-emit=target=neoverse-v1 --tessera-lower | mlir-translate --mlir-to-llvmir | llc -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -O2 | FileCheck %s

// CHECK-LABEL: product_p0_body:
// CHECK-NOT: sdot
// CHECK: smmla
// CHECK-NOT: sdot
// CHECK: ret

func.func @product(%a: tensor<15x63x4xi8>, %b: tensor<63x32x4xi8>) -> tensor<15x32xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<15x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<15x32xi32>) -> tensor<15x32xi32>
  %p = linalg.generic {
      indexing_maps = [affine_map<(m, n, k, g) -> (m, k, g)>, affine_map<(m, n, k, g) -> (k, n, g)>, affine_map<(m, n, k, g) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%a, %b : tensor<15x63x4xi8>, tensor<63x32x4xi8>) outs(%f : tensor<15x32xi32>) {
    ^bb0(%x: i8, %y: i8, %o: i32):
      %u = arith.extsi %x : i8 to i32
      %v = arith.extsi %y : i8 to i32
      %m = arith.muli %u, %v : i32
      %r = arith.addi %o, %m : i32
      linalg.yield %r : i32
  } -> tensor<15x32xi32>
  return %p : tensor<15x32xi32>
}
