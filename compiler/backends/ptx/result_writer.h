#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/ptx/copy_writer.h"

namespace tessera::compiler::ptx {

/// Writes the processing of a kernel's sums: conversion to the tensor's type, and stores.
class ResultWriter : public CopyWriter {
 public:
  using CopyWriter::CopyWriter;

 protected:
  void store();
  size_t added() const {
    return static_cast<size_t>(std::count_if(plan_.epilogue.begin(), plan_.epilogue.end(),
                                             [](const Finish& step) { return step.added.has_value(); }));
  }

  Registers sums_;  ///< of a thread, by blocks of x, then y

 private:
  /// A position along x (0) or y (1): its contribution to the element's number in the result and in each tensor of the
  /// epilogue (empty: none), and the predicate that it is within the operator.
  struct Place {
    std::string element, within;
    Registers added;
  };

  Place resultAt(int dimension, const std::string& index, int64_t further);
  /// The position of the thread's own results, `further` after the first; written on first use.
  const Place& ownPlace(int dimension, int64_t further);
  /// The elements of a register, 16-bit ones in separate registers; in the epilogue's type if there is one.
  Registers elementsOf(const std::string& sum);
  std::string widened(const std::string& half);
  /// An element converted to the tensor's type.
  std::string rounded(const std::string& element);
  void prepareEpilogue();
  std::string finished(std::string element, const Place& x, const Place& y);
  /// The element that a step adds to this result, in the epilogue's type.
  std::string addedAt(size_t step, const Place& x, const Place& y);
  /// The thread's first result within the block's tile, along x (0) or y.
  std::string ownResult(size_t s);
  std::string resultsBegin();
  std::string resultType() const;
  /// Calls use(along x, along y, values) for each thread's finished results, `vector` neighbours along y at a time.
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

  /// Writes to `to` the address of the result at two positions; `begin` is the element from outer loops.
  void addressOf(const std::string& to, const std::string& begin, const Place& one, const Place& other);
  /// Stores results via rows of shared memory, as whole lines of the tensor.
  void storeRows();
  /// Writes the thread's results to rows of shared memory, beginning at `to`, which is the thread's own address, or its
  /// group's for opaque results.
  void drain(const std::string& to);
  /// Copies a part of a row from shared memory to the tensor; opaque results are finished here, at `row` and each of
  /// `columns`.
  void copyOut(const std::string& within, const std::string& from, int64_t further, const std::string& address,
               const Place& row, const std::vector<Place>& columns);

  std::string own_[2];  // indices of the thread's first result
  std::map<int64_t, Place> places_[2];
  struct Added {
    std::string tensor, begin;  // the tensor's address, and the element from outer loops
  };
  std::vector<Added> added_tensors_;  // of each step
  // loaded values, by step and position
  std::map<std::pair<size_t, std::pair<std::string, std::string>>, std::string> fetched_;
  /// Stores results directly from registers.
  void storeEach();
};

}  // namespace tessera::compiler::ptx
