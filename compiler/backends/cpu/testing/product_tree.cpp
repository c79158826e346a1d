#include "compiler/backends/cpu/testing/product_tree.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/summary.h"
#include "compiler/schedule/words.h"

namespace tessera::compiler::codegen::testing {
namespace {

bool multiplies(const v1::Tile& leaf) {
  const std::string& variant = leaf.kernel().variant();
  return variant == words::kOuterProduct || variant == words::kSliding || variant == words::kDot ||
         variant == words::kTiles;
}

bool copiesOnly(const v1::Tile& phase) {
  if (phase.has_kernel()) return phase.kernel().variant() == words::kPack;
  return phase.children_size() > 0 && phase.children(0).kernel().variant() == words::kPack;
}

/// A scalar copy of `extents`, to panels of `width` iterations of loop `along`.
v1::Tile copyOf(int nest, int operand, const std::vector<int64_t>& extents, size_t along, int64_t width) {
  v1::Tile leaf;
  for (size_t loop = 0; loop < extents.size(); ++loop) {
    const std::string name = absl::StrCat("i", loop);
    const int64_t step = loop == along ? std::min(width, extents[loop]) : 1;
    if (step > 1) {
      v1::Extent* extent = leaf.mutable_kernel()->add_tile();
      extent->set_dimension(name);
      extent->set_size(step);
      leaf.mutable_kernel()->add_points(name);
    }
    if (step >= extents[loop]) continue;
    v1::Loop* each = leaf.add_loops();
    each->set_dimension(name);
    each->set_step(step);
  }
  leaf.mutable_kernel()->set_variant(std::string(words::kPack));
  leaf.mutable_kernel()->set_nest(nest);
  leaf.mutable_kernel()->set_operand(operand);
  leaf.mutable_kernel()->set_lanes(1);
  return leaf;
}

class Writer {
 public:
  Writer(const ProductTree& product, const v1::Tile& before) : product_(product), nest_(before.kernel().nest()) {
    lanes_ = before.kernel().lanes();
    const int first = product.batch > 1 ? 1 : 0;
    m_ = absl::StrCat("i", first);
    n_ = absl::StrCat("i", first + 1);
    k_ = absl::StrCat("r", first + 2);
    rows_ = std::min(product.rows, product.m);
    columns_ = std::min(product.vectors * lanes_, product.n);
    block_m_ = block(product.block_m, rows_, product.m);
    block_n_ = block(product.block_n, columns_, product.n);
    block_k_ = product.block_k > 1 && product.block_k < product.k ? product.block_k : 0;
    far_m_ = block_m_ > 0 ? block(product.far_m, block_m_, product.m) : 0;
    far_n_ = block_n_ > 0 ? block(product.far_n, block_n_, product.n) : 0;
    far_k_ = block_k_ > 0 ? block(product.far_k, block_k_, product.k) : 0;
  }

  v1::Tile leaf() {
    if (product_.batch > 1) loop("i0", 1, product_.batch);
    const bool within = product_.copy_a && block_m_ > 0;
    const bool within_far = within && product_.copy_far && far_m_ > 0;
    if (far_m_ > 0) loop(m_, far_m_, product_.m);
    if (!within && far_n_ > 0) loop(n_, far_n_, product_.n);
    if (far_k_ > 0) loop(k_, far_k_, product_.k);
    const int outside = leaf_.loops_size();
    if (block_m_ > 0) loop(m_, block_m_, product_.m);
    if (!within && block_n_ > 0) loop(n_, block_n_, product_.n);
    if (block_k_ > 0) loop(k_, block_k_, product_.k);
    if (product_.pack_a && !within) before(0, m_);
    if (product_.pack_b) before(1, n_);
    if (within_far) {
      copies(outside, far_m_, far_k_);
    } else if (within) {
      copies(leaf_.loops_size(), block_m_, block_k_);
    }
    loop(n_, columns_, product_.n);
    loop(m_, rows_, product_.m);
    v1::Kernel& kernel = *leaf_.mutable_kernel();
    kernel.set_variant(std::string(words::kOuterProduct));
    kernel.set_nest(nest_);
    kernel.set_lanes(lanes_);
    kernel.set_vector_loop(n_);
    for (const auto& [name, size] : {std::pair(m_, rows_), std::pair(n_, columns_)}) {
      if (size < 2) continue;
      v1::Extent* extent = kernel.add_tile();
      extent->set_dimension(name);
      extent->set_size(size);
      if (name == m_ || size > lanes_) kernel.add_points(name);
    }
    kernel.add_reductions(k_);
    return leaf_;
  }

  std::vector<v1::Tile> copies() const { return copies_; }

 private:
  static int64_t block(int64_t wanted, int64_t tile, int64_t extent) {
    const int64_t whole = (wanted + tile - 1) / tile * tile;
    return wanted > 0 && whole > tile && whole < extent ? whole : 0;
  }

  void loop(const std::string& name, int64_t step, int64_t extent) {
    if (step >= extent) return;
    v1::Loop* each = leaf_.add_loops();
    each->set_dimension(name);
    each->set_step(step);
  }

  v1::Stage& panels(int operand, const std::string& along) {
    v1::Stage& stage = *leaf_.add_stages();
    stage.set_layout(std::string(words::kPanels));
    stage.set_operand(operand);
    stage.set_along(along);
    if (product_.batch > 1) stage.add_order("i0");
    stage.add_order(along);
    stage.add_order(k_);
    return stage;
  }

  /// An operand is copied before the product.
  void before(int operand, const std::string& along) {
    panels(operand, along);
    std::vector<int64_t> extents;
    if (product_.batch > 1) extents.push_back(product_.batch);
    extents.insert(extents.end(), {operand == 0 ? product_.m : product_.n, product_.k});
    copies_.push_back(copyOf(nest_, operand, extents, extents.size() - 2, operand == 0 ? rows_ : columns_));
  }

  /// Copies the first operand in blocks of m x k, within `outside` loops.
  void copies(int outside, int64_t m, int64_t k) {
    v1::Stage& stage = panels(0, m_);
    stage.set_within(true);
    stage.set_outside(outside);
    stage.set_ahead(8);
    const int64_t last_m = product_.m % m, last_k = k > 0 ? product_.k % k : 0;
    for (const bool ends_k : {false, true})
      for (const bool ends_m : {false, true})
        if ((!ends_m || last_m > 0) && (!ends_k || last_k > 0))
          *stage.add_copies() = copyOf(nest_, 0,
                                       {ends_m ? last_m : m, ends_k  ? last_k
                                                             : k > 0 ? k
                                                                     : product_.k},
                                       0, rows_);
  }

  const ProductTree& product_;
  v1::Tile leaf_;
  std::vector<v1::Tile> copies_;
  std::string m_, n_, k_;
  int nest_, lanes_ = 1;
  int64_t rows_ = 1, columns_ = 1, block_m_ = 0, block_n_ = 0, block_k_ = 0;
  int64_t far_m_ = 0, far_n_ = 0, far_k_ = 0;
};

}  // namespace

const v1::Tile& productLeaf(const v1::Schedule& schedule) {
  for (const v1::Tile* leaf : leavesOf(schedule))
    if (multiplies(*leaf)) return *leaf;
  ADD_FAILURE() << "no product in " << schedule.DebugString();
  return v1::Tile::default_instance();
}

v1::Tile& productLeaf(v1::Schedule& schedule) { return const_cast<v1::Tile&>(productLeaf(std::as_const(schedule))); }

std::pair<int, int> registerTile(const v1::Tile& leaf) {
  int64_t rows = 1, vectors = 1;
  const v1::Kernel& kernel = leaf.kernel();
  for (const v1::Extent& extent : kernel.tile()) {
    if (extent.dimension().front() == 'r') continue;
    if (extent.dimension() == kernel.vector_loop()) {
      vectors *= (extent.size() + kernel.lanes() - 1) / kernel.lanes();
    } else {
      rows *= extent.size();
    }
  }
  return {static_cast<int>(rows), static_cast<int>(vectors)};
}

int packedOperands(const v1::Tile& leaf) { return leaf.stages_size(); }

void replaceProduct(v1::Schedule& schedule, const ProductTree& product) {
  google::protobuf::RepeatedPtrField<v1::Tile> phases;
  for (v1::Tile& phase : *schedule.mutable_phases()) {
    v1::Tile* leaf = phase.has_kernel() && multiplies(phase) ? &phase : nullptr;
    for (v1::Tile& child : *phase.mutable_children())
      if (!leaf && multiplies(child)) leaf = &child;
    if (leaf) {
      Writer writer(product, *leaf);
      *leaf = writer.leaf();
      if (!phases.empty() && copiesOnly(phases[phases.size() - 1])) phases.RemoveLast();
      const std::vector<v1::Tile> copies = writer.copies();
      if (copies.size() == 1) *phases.Add() = copies[0];
      if (copies.size() > 1) {
        v1::Tile* both = phases.Add();
        both->set_join(v1::Tile::SEQ);
        for (const v1::Tile& copy : copies) *both->add_children() = copy;
      }
    }
    *phases.Add() = phase;
  }
  *schedule.mutable_phases() = phases;
}

}  // namespace tessera::compiler::codegen::testing
