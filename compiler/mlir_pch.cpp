// Holds the precompiled header; see compiler/mlir_pch.h.
