#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ptx/copy_writer.h"

namespace tessera::compiler::ptx {

/// What a kernel does with its sums: to the tensor's type, and to the tensor.
class ResultWriter : public CopyWriter {
 public:
  using CopyWriter::CopyWriter;

 protected:
  void store();

  Registers sums_;  ///< of a thread, block by block of x, then y

 private:
  struct Place {
    std::string element, within;
  };

  Place resultAt(const std::string& index, int64_t further, int64_t extent, const std::vector<Part>& parts);
  /// The elements of a register as the tensor has them, 16-bit ones in their own registers.
  Registers elementsOf(const std::string& sum);
  /// Of a block's part of the results the thread's: first of x (0) or of y, in the block's tile.
  std::string ownResult(size_t s);
  std::string resultsBegin();
  std::string resultType() const;
  /// use(along x, along y, values): each thread's results, `vector` neighbours along y at once.
  template <typename Use>
  void forEachResult(int64_t vector, Use&& use) {
    const Fragment& result = plan_.result;
    for (int x = 0; x < plan_.sources[0].blocks; ++x) {
      for (int y = 0; y < plan_.sources[1].blocks; ++y) {
        Registers elements;
        for (int r = 0; r < result.registers; ++r) {
          for (auto& element :
               elementsOf(sums_[static_cast<size_t>((x * plan_.sources[1].blocks + y) * result.registers + r)])) {
            elements.push_back(std::move(element));
          }
        }
        for (size_t e = 0; e < elements.size(); e += static_cast<size_t>(vector)) {
          const auto begin = elements.begin() + static_cast<int64_t>(e);
          use(x * plan_.sizeOf(plan_.x) + result.first_of[e], y * plan_.sizeOf(plan_.y) + result.second_of[e],
              vector == 1 ? *begin : absl::StrCat("{", absl::StrJoin(begin, begin + vector, ", "), "}"));
        }
      }
    }
  }

  /// Results as rows of the level, and lines of the tensor from there.
  void storeRows();
  /// The thread's results to rows of the level, its own begin `to`, or its group's where they are opaque.
  void drain(const std::string& to);
  /// A part of a row from the level to the tensor, as the tensor has it.
  void copyOut(const std::string& within, const std::string& from, int64_t further, const std::string& address);
  /// Results from registers.
  void storeEach();
};

}  // namespace tessera::compiler::ptx
