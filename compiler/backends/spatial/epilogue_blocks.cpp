#include "compiler/backends/spatial/epilogue_blocks.h"

#include <algorithm>
#include <cstring>

#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/nest_form.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::simulator {
namespace {

const SpatialAccess& carriedOf(const Epilogue& epilogue) {
  return epilogue.nest.accesses[static_cast<size_t>(epilogue.carried)];
}

/// Largest piece whose elements are counted, in results; larger ones count one element for each result.
constexpr int64_t kMaxCounted = 1 << 22;

using Walked = std::vector<std::pair<int64_t, int64_t>>;

/// Calls use(block) for each block of a piece of results.
template <typename Use>
void forEachBlockOf(const Program& program, const Place& place, const Piece& piece, Use&& use) {
  const std::vector<int>& walks = program.walks[0];
  std::vector<int64_t> block = place.first;
  for (int64_t at = piece.first; at < piece.first + piece.count; ++at) {
    int64_t rest = at;
    for (size_t i = walks.size(); i-- > 0;) {
      const auto d = static_cast<size_t>(walks[i]);
      block[d] = place.first[d] + rest % place.count[d];
      rest /= place.count[d];
    }
    use(block);
  }
}

}  // namespace

EpilogueBlocks::EpilogueBlocks(const Epilogue& epilogue)
    : epilogue_(epilogue),
      points_(epilogue.nest, carriedOf(epilogue)),
      evaluator_(epilogue.nest),
      point_(epilogue.nest.loops.size(), 0) {}

int64_t EpilogueBlocks::elementOf(size_t access, int64_t result) {
  points_.at(result, point_);
  return epilogue_.nest.accesses[access].position.at(point_);
}

void EpilogueBlocks::begin(v1::DataType dtype, const uint8_t* results, const std::vector<uint8_t*>& blocks) {
  dtype_ = dtype;
  results_ = results;
  blocks_ = blocks;
  count_ = 0;
}

absl::Status EpilogueBlocks::add(int64_t offset, int64_t position, int64_t result) {
  const auto at = static_cast<size_t>(count_);
  positions_[at] = position;
  points_.at(result, point_);
  for (const Evaluator::Index& index : evaluator_.indices())
    evaluator_.value(index.value).whole()[count_] = point_[static_cast<size_t>(index.loop)];
  const v1::DataType type = carriedOf(epilogue_).dtype;
  const auto bytes = static_cast<size_t>(elementBytes(type));
  uint8_t* to = stored_.data() + at * bytes;
  if (!isFloatingPoint(type) || type == dtype_) {
    std::memcpy(to, results_ + offset, bytes);
  } else {
    double number = 0;
    decode(dtype_, results_ + offset, 1, &number);
    number = rounded(number, type);
    encode(type, &number, 1, to);
  }
  return ++count_ < kStrip ? absl::OkStatus() : end();
}

absl::Status EpilogueBlocks::end() {
  if (count_ == 0) return absl::OkStatus();
  const SpatialNest& nest = epilogue_.nest;
  const StripPlace inside{.positions = positions_.data()};
  static constexpr int64_t kFirst = 0;
  for (size_t a = 0; a < nest.accesses.size(); ++a) {
    StripValue& value = evaluator_.value(static_cast<int>(a));
    if (static_cast<int>(a) == epilogue_.carried) {
      readStrip(nest.accesses[a].dtype, stored_.data(), {.positions = &kFirst, .regular = true, .step = 1}, count_,
                value);
    } else if (a > 0) {
      readStrip(nest.accesses[a].dtype, blocks_[a], inside, count_, value);
    }
  }
  // Followers have no loads, so that they need no buffers.
  if (absl::Status status = evaluator_.run(count_, {}, {}); !status.ok()) return status;
  writeStrip(nest.accesses[0].dtype, blocks_[0], inside, count_, evaluator_.value(nest.yields[0]));
  count_ = 0;
  return absl::OkStatus();
}

EpilogueElements::EpilogueElements(const Program& program)
    : program_(program), results_(program, 0), points_(program.epilogue->nest, carriedOf(*program.epilogue)) {
  const SpatialNest& nest = program.epilogue->nest;
  double all = 1;
  for (const auto& loop : nest.loops) all *= static_cast<double>(loop.extent);
  for (size_t a = 1; a < nest.accesses.size(); ++a) {
    double walked = 1;
    for (const auto& [stride, extent] : elementsWalked(nest, nest.accesses[a]).value_or(Walked{}))
      walked *= static_cast<double>(extent);
    // Otherwise, each point has an element of its own.
    if (static_cast<int>(a) != program.epilogue->carried && walked < all) repeated_.push_back(a);
  }
}

int64_t EpilogueElements::elementsIn(const Place& place, const Piece& piece, size_t access) {
  const auto block = static_cast<int64_t>(results_.blockElements());
  if (piece.count > kMaxCounted / block) return loopnest::saturatedProduct(piece.count, block);
  std::vector<int64_t> shape;
  for (const int d : program_.walks[0]) {
    const auto dimension = static_cast<size_t>(d);
    // The last block of a dimension may be cut.
    shape.push_back(place.count[dimension]);
    shape.push_back(place.first[dimension] + place.count[dimension] == program_.dimensions[dimension].blocks);
  }
  shape.insert(shape.end(), {piece.first, piece.count});
  const auto [found, fresh] = known_.try_emplace(std::move(shape));
  if (fresh) {
    const std::vector<SpatialAccess>& accesses = program_.epilogue->nest.accesses;
    std::vector<std::vector<int64_t>> positions(accesses.size());
    std::vector<int64_t> point(program_.epilogue->nest.loops.size(), 0);
    int64_t points = 0;
    forEachBlockOf(program_, place, piece, [&](const std::vector<int64_t>& block) {
      results_.forEachElement(block, [&](int64_t, int64_t element) {
        ++points;
        points_.at(element, point);
        for (const size_t a : repeated_) positions[a].push_back(accesses[a].position.at(point));
      });
    });
    found->second.assign(accesses.size(), points);
    for (const size_t a : repeated_) {
      std::ranges::sort(positions[a]);
      found->second[a] = std::ranges::unique(positions[a]).begin() - positions[a].begin();
    }
  }
  return found->second[access];
}

}  // namespace tessera::compiler::simulator
