#include "compiler/graph/analysis/node_names.h"

#include "absl/strings/str_cat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxNameBytes = 160;

void collectNames(mlir::Location location, llvm::SmallVectorImpl<llvm::StringRef>& names) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(location)) {
    if (!llvm::is_contained(names, name.getName().getValue())) names.push_back(name.getName().getValue());
  } else if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations()) collectNames(part, names);
  }
}

}  // namespace

std::string nodeNames(llvm::ArrayRef<mlir::Location> locations) {
  llvm::SmallVector<llvm::StringRef> names;
  for (mlir::Location location : locations) collectNames(location, names);
  std::string joined = llvm::join(names, " + ");
  if (joined.size() > kMaxNameBytes) {
    joined = absl::StrCat(names.front().take_front(60).str(), " ... ", names.back().take_back(60).str());
  }
  return joined;
}

std::string firstNodeName(mlir::Location location) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(location)) return name.getName().str();
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations()) {
      if (std::string name = firstNodeName(part); !name.empty()) return name;
    }
  }
  return {};
}

}  // namespace tessera::compiler
