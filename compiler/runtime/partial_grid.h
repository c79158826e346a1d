#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// A grid bound (tessera_module_grid_bound) evaluated for the current run. Of each `count` iterations of `inner` cells,
/// only the first `needed` run. The bounds of faster grid dimensions leave `below` cells in each of them.
struct EvaluatedGridBound {
  int64_t count = 1, inner = 1;
  int64_t needed = 1, below = 1;
};

/// Number of iterations of the bounded grid dimension that a run of `rows` rows needs.
inline int64_t neededSteps(const tessera_module_grid_bound& bound, int64_t rows) {
  // No overflow: checkModule() bounds the factors.
  const int64_t steps = (rows * bound.numerator + bound.denominator - 1) / bound.denominator + bound.slack;
  return std::min(bound.count, steps);
}

/// Sets `below` of the grid bounds of one phase, slowest first; returns the number of cells of its `grid` that remain.
inline int64_t boundGrid(int64_t grid, std::span<EvaluatedGridBound> grid_bounds) {
  int64_t left = 1, inside = 1;  // remaining cells so far, and cells of the whole grid, from the fastest level on
  for (size_t c = grid_bounds.size(); c-- > 0;) {
    EvaluatedGridBound& bound = grid_bounds[c];
    left *= bound.inner / inside;
    bound.below = left;
    left *= bound.needed;
    inside = bound.inner * bound.count;
  }
  return left * (grid / inside);
}

/// Maps the range [low, high) of the remaining cells to the whole grid: calls work(lo, hi) for each run of contiguous
/// cells.
template <typename Work>
void forEachRun(std::span<const EvaluatedGridBound> grid_bounds, int64_t low, int64_t high, Work work) {
  if (grid_bounds.empty()) return work(low, high);
  while (low < high) {
    int64_t rest = low, at = 0, room = 0;
    for (const EvaluatedGridBound& bound : grid_bounds) {
      const int64_t whole = bound.needed * bound.below;
      at += rest / whole * bound.count * bound.inner;
      rest %= whole;
      room = whole - rest;  // until the end of the fastest bounded dimension, within which cells are contiguous
      at += rest / bound.below * bound.inner;
      rest %= bound.below;
    }
    const int64_t length = std::min(room, high - low);
    work(at + rest, at + rest + length);
    low += length;
  }
}

}  // namespace tessera::compiler
