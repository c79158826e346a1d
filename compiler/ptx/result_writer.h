#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
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
  size_t added() const {
    return static_cast<size_t>(std::count_if(plan_.epilogue.begin(), plan_.epilogue.end(),
                                             [](const Finish& step) { return step.added.has_value(); }));
  }

  Registers sums_;  ///< of a thread, block by block of x, then y

 private:
  /// An index along x (0) or y (1): what it adds to an element's number in the result and in what each step of the
  /// epilogue adds (empty: nothing), and whether it is the operator's.
  struct Place {
    std::string element, within;
    Registers added;
  };

  Place resultAt(int dimension, const std::string& index, int64_t further);
  /// That of the thread's own results, `further` behind the first; made where it is asked for first.
  const Place& ownPlace(int dimension, int64_t further);
  /// The elements of a register, 16-bit ones in their own registers; as the epilogue computes where there is one.
  Registers elementsOf(const std::string& sum);
  std::string widened(const std::string& half);
  /// An element as the tensor has it.
  std::string rounded(const std::string& element);
  void prepareEpilogue();
  std::string finished(std::string element, const Place& x, const Place& y);
  /// What a step adds to the result there, as the epilogue computes.
  std::string addedAt(size_t step, const Place& x, const Place& y);
  /// Of a block's part of the results the thread's: first of x (0) or of y, in the block's tile.
  std::string ownResult(size_t s);
  std::string resultsBegin();
  std::string resultType() const;
  /// use(along x, along y, values): each thread's finished results, `vector` neighbours along y at once.
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
          const int64_t at_x = x * plan_.sizeOf(plan_.x) + result.first_of[e],
                        at_y = y * plan_.sizeOf(plan_.y) + result.second_of[e];
          for (int64_t v = 0; v < vector; ++v) {
            if (!plan_.epilogue.empty()) begin[v] = finished(begin[v], ownPlace(0, at_x), ownPlace(1, at_y + v));
            begin[v] = rounded(begin[v]);
          }
          use(at_x, at_y, vector == 1 ? *begin : absl::StrCat("{", absl::StrJoin(begin, begin + vector, ", "), "}"));
        }
      }
    }
  }

  /// Puts into `to` where the result at two places is, `begin` being the element by loops outside.
  void addressOf(const std::string& to, const std::string& begin, const Place& one, const Place& other);
  /// Results as rows of the level, and lines of the tensor from there.
  void storeRows();
  /// The thread's results to rows of the level, its own begin `to`, or its group's where they are opaque.
  void drain(const std::string& to);
  /// A part of a row from the level to the tensor; opaque results are finished here, at `row` and each of `columns`.
  void copyOut(const std::string& within, const std::string& from, int64_t further, const std::string& address,
               const Place& row, const std::vector<Place>& columns);

  std::string own_[2];  // indices of the thread's first result
  std::map<int64_t, Place> places_[2];
  struct Added {
    std::string tensor, begin;  // and the element by loops outside
  };
  std::vector<Added> added_tensors_;                                                       // of each step
  std::map<std::pair<size_t, std::pair<std::string, std::string>>, std::string> fetched_;  // by step and what it moves
  /// Results from registers.
  void storeEach();
};

}  // namespace tessera::compiler::ptx
