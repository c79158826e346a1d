#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/nest_form.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/schedule.pb.h"
#include "tessera/v1/target.pb.h"

/// How the work-groups and work-items of an OpenCL device share the points of a nest: decided by planKernel(), stored
/// as tile trees, and read back without further decisions.
namespace tessera::compiler::opencl {

/// Variants of leaves (v1::Kernel.variant): one point for each work-item, with reductions in order; a product through
/// local memory, with a block of results for each work-item.
inline constexpr std::string_view kItemsVariant = "work-items", kProductVariant = "outer-product";
/// Reductions that the work-items of a group share, each with a part of the values: the loops over these count as one
/// dimension.
inline constexpr std::string_view kTreeVariant = "reduction-tree", kReducedDimension = "k";
/// A nest without a function: the product before it applies its body to each result.
inline constexpr std::string_view kEpilogueVariant = "epilogue";

/// A product as a multiplication of matrices for each index of `batch`: rows x columns results, `summed` products each.
/// Loops of extent 1 are left out.
struct MatrixForm {
  std::vector<int> batch, rows, columns, summed;                               ///< loops of the nest, outermost first
  int row_factor = 0, column_factor = 0;                                       ///< accesses of the nest
  v1::DataType row_type = v1::DATA_TYPE_F32, column_type = v1::DATA_TYPE_F32;  ///< of the factors as numbers
  bool real = true;                                                            ///< sums of f32; otherwise of i32
};

/// The product that a nest is, unless a loop moves the output and no factor, or there are not two factors.
std::optional<MatrixForm> matrixFormOf(const simulator::SpatialNest& nest, const simulator::CheckedKernel& kernel);

bool accessesBuffer(const simulator::SpatialNest& nest, int buffer);

/// For each nest: the position of an earlier nest that fills its output with a constant and whose result no nest reads
/// or changes in between; -1 without one.
std::vector<int> initialFillsOf(const simulator::CheckedKernel& kernel);
/// The constant of such a fill, as a literal.
std::string fillCode(const simulator::SpatialNest& fill);

/// Whether the nest has serial loops and its outputs can stay in registers during them: no serial loop moves an output,
/// and no other access touches the outputs' elements.
bool keepsOutputs(const simulator::SpatialNest& nest);
/// Whether access `input` is the element that output `output` writes at each point.
bool isOwnElement(const simulator::SpatialNest& nest, size_t input, int output);

/// How the results of a product become the elements of the nest after it, which is their only reader.
struct Epilogue {
  int nest = 0;                 ///< its number
  std::vector<int> loops = {};  ///< for each of its loops: the product's loop; -1: its extent is 1
};

/// The epilogue that the nest after `product` is: each of its points reads the one result that it stands for. Nothing
/// if other nests read the results or they are a result of the kernel; `operands`: number of leading buffers that are
/// operands.
std::optional<Epilogue> epilogueOf(const simulator::CheckedKernel& kernel, int product, int operands);

/// Product of the extents of `loops`.
int64_t pointsOf(const simulator::SpatialNest& nest, const std::vector<int>& loops);

/// Tiles of a product.
struct ProductTiles {
  int64_t rows = 0, columns = 0;            ///< of a work-group
  int64_t summed = 0;                       ///< products of one block in local memory
  int64_t item_rows = 0, item_columns = 0;  ///< of a work-item; the columns are one vector: 1, 2, 4, 8 or 16
  bool operator==(const ProductTiles&) const = default;

  int64_t items() const { return rows / item_rows * (columns / item_columns); }
  /// Local memory: blocks of both factors and their offsets.
  int64_t localBytes() const { return (rows + columns) * summed * 4 + (2 * rows + 2 * columns + 2 * summed) * 4; }
};

struct NestPlan {
  /// kInitial: a fill without a function; the next nest on the buffer starts from its constant. kEpilogue: likewise
  /// without one; the product before it computes it.
  enum class Form : uint8_t { kItems, kTree, kProduct, kInitial, kEpilogue };
  Form form = Form::kItems;
  std::vector<int64_t> group = {};  ///< kItems, kTree: points of a work-group along each loop
  int64_t tree_items = 0;           ///< kTree: work-items for each point, a power of two
  ProductTiles tiles = {};          ///< kProduct
};

/// The plan of each nest. `scalar`: no products and no reductions through local memory.
std::vector<NestPlan> planKernel(const simulator::CheckedKernel& kernel, int operands, const v1::Target& target,
                                 bool scalar);

/// The plan of a nest as a tile tree. `number` is the nest's.
v1::Tile treeOf(const NestPlan& plan, const simulator::SpatialNest& nest, int number, const v1::Target& target);

/// The plans of the trees of a schedule. INVALID_SCHEDULE with the path of the tile at fault.
absl::StatusOr<std::vector<NestPlan>> plansOf(const v1::Schedule& schedule, const simulator::CheckedKernel& kernel,
                                              int operands, const v1::Target& target);

}  // namespace tessera::compiler::opencl
