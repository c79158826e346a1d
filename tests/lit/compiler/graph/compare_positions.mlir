// RUN: tessera-opt %s -split-input-file -tessera-fold-constants -tessera-compare-positions -canonicalize | FileCheck %s

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#mask = affine_map<(d0, d1, d2) -> (d1, d2)>
#square = affine_map<(d0, d1) -> (d0, d1)>

// A constant triangle of zeros and -infinity becomes a comparison: no data is read.
// CHECK-LABEL: @triangle
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<2x16x16xf32>)
// CHECK: %[[ROW:.*]] = linalg.index 1
// CHECK: %[[I:.*]] = arith.index_cast %[[ROW]] : index to i32
// CHECK: %[[COLUMN:.*]] = linalg.index 2
// CHECK: %[[J:.*]] = arith.index_cast %[[COLUMN]] : index to i32
// CHECK: %[[SEEN:.*]] = arith.cmpi sle, %[[J]], %[[I]] : i32
// CHECK: %[[MASK:.*]] = arith.select %[[SEEN]]
// CHECK: arith.addf %{{.*}}, %[[MASK]]
func.func @triangle(%x: tensor<2x16x16xf32>) -> tensor<2x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %f = tensor.empty() : tensor<16x16xf32>
  %m = linalg.generic {indexing_maps = [#square], iterator_types = ["parallel", "parallel"]}
      outs(%f : tensor<16x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi ule, %j, %i : index
    %r = arith.select %seen, %zero, %low : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %e = tensor.empty() : tensor<2x16x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #mask, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %m : tensor<2x16x16xf32>, tensor<16x16xf32>) outs(%e : tensor<2x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x16x16xf32>
  return %y : tensor<2x16x16xf32>
}

// -----

#square = affine_map<(d0, d1) -> (d0, d1)>

// A window is two comparisons.
// CHECK-LABEL: @window
// CHECK: arith.cmpi sle
// CHECK: arith.cmpi sge
// CHECK: arith.andi
// CHECK: arith.select
func.func @window(%x: tensor<20x24xf32>) -> tensor<20x24xf32> {
  %f = tensor.empty() : tensor<20x24xi1>
  %m = linalg.generic {indexing_maps = [#square], iterator_types = ["parallel", "parallel"]}
      outs(%f : tensor<20x24xi1>) {
  ^bb0(%o: i1):
    %three = arith.constant 3 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %above = arith.addi %i, %three : index
    %reach = arith.addi %j, %three : index
    %a = arith.cmpi ule, %j, %above : index
    %b = arith.cmpi uge, %reach, %i : index
    %seen = arith.andi %a, %b : i1
    linalg.yield %seen : i1
  } -> tensor<20x24xi1>
  %e = tensor.empty() : tensor<20x24xf32>
  %y = linalg.generic {indexing_maps = [#square, #square, #square], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<20x24xf32>, tensor<20x24xi1>) outs(%e : tensor<20x24xf32>) {
  ^bb0(%a: f32, %b: i1, %o: f32):
    %low = arith.constant 0xFF800000 : f32
    %r = arith.select %b, %a, %low : f32
    linalg.yield %r : f32
  } -> tensor<20x24xf32>
  return %y : tensor<20x24xf32>
}

// -----

#square = affine_map<(d0, d1) -> (d0, d1)>

// With one different element it stays data.
// CHECK-LABEL: @no_band
// CHECK: ins(%arg0, %{{.*}} : tensor<20x24xf32>, tensor<20x24xf32>)
func.func @no_band(%x: tensor<20x24xf32>) -> tensor<20x24xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %f = tensor.empty() : tensor<20x24xf32>
  %m = linalg.generic {indexing_maps = [#square], iterator_types = ["parallel", "parallel"]}
      outs(%f : tensor<20x24xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %last = arith.constant 19 : index
    %five = arith.constant 5 : index
    %seen = arith.cmpi ule, %j, %i : index
    %at_last = arith.cmpi eq, %i, %last : index
    %at_five = arith.cmpi eq, %j, %five : index
    %aside = arith.andi %at_last, %at_five : i1
    %both = arith.xori %seen, %aside : i1
    %r = arith.select %both, %zero, %low : f32
    linalg.yield %r : f32
  } -> tensor<20x24xf32>
  %e = tensor.empty() : tensor<20x24xf32>
  %y = linalg.generic {indexing_maps = [#square, #square, #square], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<20x24xf32>, tensor<20x24xf32>) outs(%e : tensor<20x24xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<20x24xf32>
  return %y : tensor<20x24xf32>
}
