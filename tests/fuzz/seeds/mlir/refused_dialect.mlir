module { func.func @f(%x: memref<2xf32>) { memref.dealloc %x : memref<2xf32> return } }
