// RUN: tessera-opt %s -split-input-file -tessera-plan | FileCheck %s

// Three consecutive products: two buffers of 64 x 64 x 4 bytes alternate, whatever the depth.
// CHECK: step 0: {{.*}}(input 0, weight 0..16384, arena [[A:[0-9]+]]..[[AE:[0-9]+]])
// CHECK: step 1: {{.*}}(arena [[A]]..[[AE]], weight 16384..32768, arena [[B:[0-9]+]]..[[BE:[0-9]+]])
// CHECK: step 2: {{.*}}(arena [[B]]..[[BE]], weight 32768..49152, arena [[A]]..[[AE]])
// CHECK: step 3: {{.*}}(arena [[A]]..[[AE]], weight 49152..65536, output 0)
// CHECK: arena 32768, bound 32768, sum 49152
func.func @main(%x: tensor<64x64xf32>, %w0: tensor<64x64xf32> {tessera.weight = 0 : i64}, %w1: tensor<64x64xf32> {tessera.weight = 1 : i64},
    %w2: tensor<64x64xf32> {tessera.weight = 2 : i64}, %w3: tensor<64x64xf32> {tessera.weight = 3 : i64}) -> tensor<64x64xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = linalg.matmul ins(%a, %w1 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.matmul ins(%b, %w2 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = linalg.matmul ins(%c, %w3 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}

// -----

// A chain of elementwise operations is one step and needs no memory.
// CHECK: step 0: {{.*}}(input 0, output 0)
// CHECK: steps 1, {{.*}} arena 0, bound 0, sum 0
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64x64xf32>
  %a = linalg.exp ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = linalg.negf ins(%a : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %b : tensor<64x64xf32>
}

// -----

// An input that the model returns is copied, once for each result.
// CHECK-COUNT-2: step {{.*}}copy{{.*}}(input 0, output
// CHECK: steps 2,
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  return %x, %x : tensor<64xf32>, tensor<64xf32>
}
