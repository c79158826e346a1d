#pragma once

#include <vector>

#include "compiler/graph/plan/groups.h"
#include "llvm/ADT/DenseMap.h"

/// Finds how the groups of a model feed each other, and their kinds: the input of the search for chains.
namespace tessera::compiler {

/// The readers of a group's single result.
struct GroupLink {
  struct Reader {
    mlir::Operation* op = nullptr;
    int group = -1;                       ///< -1: in no group
    std::vector<mlir::Operation*> views;  ///< between
  };
  int reader = -1;                      ///< position of the first reading group; -1: none
  std::vector<mlir::Operation*> views;  ///< between
  std::vector<Reader> others;           ///< outside that group

  /// Whether all other readers run after the first group, so that they may read the result that slices write.
  bool othersRunLater() const;
};

/// Groups are positions in the list, which must outlive the object.
class GroupLinks {
 public:
  explicit GroupLinks(const std::vector<Group>& groups);

  GroupLink linkOf(int group) const;
  /// Returns the group that only moves an operand for `group` alone; -1 if there is none.
  int movementBefore(int group) const;

  /// Whether the group contains a product or convolution and no pool. Products of weights that are left to instructions
  /// do not count, because the cost model does not model their reads in slices.
  bool heavy(int group) const;
  /// Whether the group is a stage of a convolution in Winograd's domain.
  bool winograd(int group) const;
  /// Whether the group is a pool.
  bool pools(int group) const;
  /// Whether the group consists of operations on elements or rows, and paddings.
  bool rowsOnly(int group) const;
  /// Whether the group reduces whole rows and combines the result with them.
  bool normalizes(int group) const;
  /// Whether the group only changes layouts and pads.
  bool movesOnly(int group) const;

 private:
  void follow(mlir::Value value, const std::vector<mlir::Operation*>& views,
              std::vector<GroupLink::Reader>& readers) const;

  const std::vector<Group>& groups_;
  llvm::DenseMap<mlir::Operation*, int> group_of_;
};

}  // namespace tessera::compiler
