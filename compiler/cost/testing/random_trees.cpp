#include "compiler/cost/testing/random_trees.h"

namespace tessera::compiler::cost {

const std::vector<Problem>& smallProblems() {
  static const std::vector<Problem> all = {
      {"product", "C[m, n] += A[m, k] * B[k, n]", {4, 6, 4}, {5, 7, 5}},
      {"strided convolution", "O[k, p] += I[c, 2 * p + r] * W[k, c, r]", {4, 6, 2, 3}, {3, 7, 2, 3}},
      {"pointwise convolution with a stride", "O[k, p] += I[c, 3 * p] * W[k, c]", {2, 8, 4}, {3, 7, 5}},
      {"image", "O[p, q] += I[p + r, q + s] * W[r, s]", {4, 4, 3, 2}, {5, 4, 3, 2}},
      {"chain of products", "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 4, 2, 4}, {5, 3, 3, 4}},
      {"chain of convolutions",
       "M[k, p] += I[c, p + r] * W[k, c, r]; O[j, x] += M[k, x + u] * V[j, k, u]",
       {2, 6, 2, 2, 2, 4, 3},
       {2, 7, 2, 3, 2, 5, 3}},
      {"attention",
       "S[m, l] += Q[m, k] * K[l, k]; M[m] = max(S[m, l]); T[m, l] = S[m, l] - M[m]; P[m, l] = exp(T[m, l]); "
       "D[m] = P[m, l]; N[m, l] = P[m, l] / D[m]; O[m, n] += N[m, l] * V[l, n]",
       {4, 4, 2, 2},
       {5, 3, 3, 2}},
      {"residual",
       "G[m, n] = tanh(X[m, n]); C[m, j] += G[m, n] * B[n, j]; H[m, n] = G[m, n] + X[m, n]",
       {4, 4, 4},
       {5, 3, 5}},
      {"several readers",
       "C[m, n] += A[m, k] * B[k, n]; G[m, n] = tanh(C[m, n]); O[m, n] = G[m, n] + C[m, n]",
       {4, 4, 4},
       {5, 3, 5}},
  };
  return all;
}

RandomTrees::RandomTrees(const loopnest::Nest& nest, int levels, bool even, uint64_t seed)
    : nest_(nest), levels_(levels), even_(even), random_(seed) {}

v1::Schedule RandomTrees::next() {
  v1::Schedule schedule;
  std::vector<int> all;
  for (size_t s = 0; s < nest_.statements.size(); ++s) all.push_back(static_cast<int>(s));
  // Now and then several phases.
  const size_t cut = all.size() > 1 && below(5) == 0 ? 1 + below(all.size() - 1) : all.size();
  extents_.assign(nest_.statements.size(), nest_.extents());
  grow(*schedule.add_phases(), {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(cut)}, levels_ - 1);
  if (cut < all.size())
    grow(*schedule.add_phases(), {all.begin() + static_cast<std::ptrdiff_t>(cut), all.end()}, levels_ - 1);
  return schedule;
}

void RandomTrees::grow(v1::Tile& tile, const std::vector<int>& statements, int level) {
  if (level > 0 && below(3) == 0) level -= 1 + static_cast<int>(below(static_cast<uint64_t>(level)));
  tile.set_level("L" + std::to_string(level));
  const uint64_t loops = below(4);
  for (uint64_t i = 0; i < loops; ++i) addLoop(tile, statements);
  if (below(6) == 0) {
    v1::Stage* stage = tile.add_stages();
    stage->set_layout("bypass");
    stage->add_order(nest_.accesses[below(nest_.accesses.size())].name);
  }
  if (statements.size() == 1 && (level == 0 || below(2) == 0)) {
    tile.mutable_kernel()->set_variant("compute");
    tile.mutable_kernel()->set_nest(statements[0]);
    return;
  }
  const int inner = std::max(0, level - static_cast<int>(below(2)));
  if (statements.size() == 1 || below(4) == 0) return grow(*tile.add_children(), statements, inner);
  constexpr v1::Tile::Join kJoins[] = {v1::Tile::SEQ, v1::Tile::SHAR, v1::Tile::PARA, v1::Tile::PIPE};
  tile.set_join(kJoins[below(4)]);
  for (size_t begin = 0; begin < statements.size();) {
    const size_t end = begin + 1 + below(std::min<uint64_t>(3, statements.size() - begin));
    grow(*tile.add_children(),
         {statements.begin() + static_cast<std::ptrdiff_t>(begin),
          statements.begin() + static_cast<std::ptrdiff_t>(end)},
         inner);
    begin = end;
  }
}

void RandomTrees::addLoop(v1::Tile& tile, const std::vector<int>& statements) {
  const int statement = statements[below(statements.size())];
  const std::vector<int>& own = nest_.statements[static_cast<size_t>(statement)].loops;
  const auto loop = static_cast<size_t>(own[below(own.size())]);
  const int64_t extent = extents_[static_cast<size_t>(statement)][loop];
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= extent; ++step)
    if (!even_ || extent % step == 0) steps.push_back(step);
  const int64_t step = steps[below(steps.size())];
  for (const int s : statements) extents_[static_cast<size_t>(s)][loop] = step;
  v1::Loop* added = tile.add_loops();
  added->set_dimension(nest_.loops[loop].name);
  added->set_step(step);
  if (below(4) == 0) added->set_unit("core");
}

}  // namespace tessera::compiler::cost
