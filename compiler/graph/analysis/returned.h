#pragma once

#include "compiler/graph/analysis/op_kind.h"
#include "llvm/ADT/STLExtras.h"

namespace tessera::compiler {

/// Whether the model returns `value`, directly or through views. Such a value has a buffer of its own.
inline bool isReturned(mlir::Value value) {
  return llvm::any_of(value.getUsers(), [](mlir::Operation* user) {
    return user->hasTrait<mlir::OpTrait::IsTerminator>() ||
           (kindOf(user) == OpKind::kView && isReturned(user->getResult(0)));
  });
}

}  // namespace tessera::compiler
