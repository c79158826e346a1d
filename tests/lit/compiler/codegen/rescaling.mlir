// A quotient by a constant becomes two products and a correction, a saturating conversion two clamps, rounding to even
// an addition that leaves the integer in the last bits: no division, no range masks.
// RUN: tessera-opt %s --tessera-emit --tessera-lower | FileCheck %s

// CHECK: llvm.func internal @quantize_p0_body(
// CHECK-NOT: llvm.fdiv
// CHECK: llvm.intr.fma
// CHECK-NOT: llvm.or
// CHECK: llvm.fadd
// CHECK: llvm.bitcast
// CHECK: llvm.trunc
// CHECK-NOT: llvm.fdiv
// CHECK: llvm.return

#id = affine_map<(d0) -> (d0)>
func.func @quantize(%x: tensor<64xf32>) -> tensor<64xi8> {
  %e = tensor.empty() : tensor<64xi8>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xi8>) {
  ^bb0(%v: f32, %o: i8):
    %scale = arith.constant 0.02 : f32
    %zero = arith.constant 0.0 : f32
    %from = arith.constant -1.0 : f32
    %to = arith.constant 256.0 : f32
    %lowest = arith.constant 0 : i8
    %highest = arith.constant -1 : i8
    %quotient = arith.divf %v, %scale : f32
    %whole = math.roundeven %quotient : f32
    %below = arith.cmpf ole, %whole, %from : f32
    %above = arith.cmpf oge, %whole, %to : f32
    %nan = arith.cmpf une, %whole, %whole : f32
    %either = arith.ori %below, %above : i1
    %unsafe = arith.ori %nan, %either : i1
    %safe = arith.select %unsafe, %zero, %whole : f32
    %byte = arith.fptoui %safe : f32 to i8
    %inner = arith.select %above, %highest, %byte : i8
    %r = arith.select %below, %lowest, %inner : i8
    linalg.yield %r : i8
  } -> tensor<64xi8>
  return %q : tensor<64xi8>
}
