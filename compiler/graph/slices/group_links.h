#pragma once

#include <vector>

#include "compiler/graph/plan/groups.h"
#include "llvm/ADT/DenseMap.h"

/// How the groups of a model feed each other, and of which kinds they are: what chains are found by.
namespace tessera::compiler {

/// Who reads the one result of a group.
struct GroupLink {
  struct Reader {
    mlir::Operation* op = nullptr;
    int group = -1;                       ///< -1: it is in none
    std::vector<mlir::Operation*> views;  ///< between
  };
  int reader = -1;                      ///< position of the first group that reads; -1: there is none
  std::vector<mlir::Operation*> views;  ///< between
  std::vector<Reader> others;           ///< outside of that group

  /// Whether what slices leave of the result is there when the others read it: these run behind the first group.
  bool othersRunLater() const;
};

/// Groups are positions in the list. The list outlives it.
class GroupLinks {
 public:
  explicit GroupLinks(const std::vector<Group>& groups);

  GroupLink linkOf(int group) const;
  /// The group that moves what `group` alone reads; -1: none.
  int movementBefore(int group) const;

  /// A product, or a convolution, is in it; a pool is neither. Products of weights that are left to instructions
  /// are none: what all slices would read of them is not priced.
  bool heavy(int group) const;
  /// A stage of a convolution in Winograd's domain.
  bool winograd(int group) const;
  /// A pool.
  bool pools(int group) const;
  /// Nothing but operations on elements or rows, and paddings of these.
  bool rowsOnly(int group) const;
  /// Whole rows are summed up, or searched for their largest element, and changed by that.
  bool normalizes(int group) const;
  /// Nothing but changes of layout and paddings.
  bool movesOnly(int group) const;

 private:
  void follow(mlir::Value value, const std::vector<mlir::Operation*>& views,
              std::vector<GroupLink::Reader>& readers) const;

  const std::vector<Group>& groups_;
  llvm::DenseMap<mlir::Operation*, int> group_of_;
};

}  // namespace tessera::compiler
