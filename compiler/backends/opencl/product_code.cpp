#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/body_code.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/function_code.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialAccess;
using simulator::SpatialNest;

class ProductWriter {
 public:
  ProductWriter(const SpatialNest& nest, const simulator::CheckedKernel& kernel, const MatrixForm& form,
                const ProductTiles& tiles, const Epilogue* epilogue)
      : nest_(nest),
        kernel_(kernel),
        form_(form),
        tiles_(tiles),
        epilogue_(epilogue),
        after_(epilogue != nullptr ? &kernel.nests[static_cast<size_t>(epilogue->nest)] : nullptr),
        parameters_(after_ != nullptr ? std::vector{&nest, after_} : std::vector{&nest}, kernel,
                    after_ != nullptr ? nest.accesses[0].buffer : -1),
        rows_(pointsOf(nest, form.rows)),
        columns_(pointsOf(nest, form.columns)),
        summed_(pointsOf(nest, form.summed)) {}

  FunctionCode write(const std::string& function, bool from_zero) {
    declare();
    writeOffsets();
    writeBlocks();
    from_zero_ = from_zero;
    writeResults();
    FunctionCode code;
    v1::OpenClKernel::Launch& launch = code.launch;
    const int64_t across = tiles_.columns / tiles_.item_columns, down = tiles_.rows / tiles_.item_rows;
    launch.set_function(function);
    launch.set_name(after_ != nullptr ? absl::StrCat(nest_.name, ", ", after_->name) : nest_.name);
    launch.add_work_items(across * ceilDivided(columns_, tiles_.columns));
    launch.add_work_items(down * ceilDivided(rows_, tiles_.rows));
    launch.add_work_items(pointsOf(nest_, form_.batch));
    launch.add_work_group(across);
    launch.add_work_group(down);
    launch.add_work_group(1);
    launch.set_local_bytes(tiles_.localBytes());
    parameters_.addTo(launch);
    const std::string display = absl::StrCat(nest_.name, ": ", pointsOf(nest_, form_.batch), " products of ", rows_,
                                             " x ", summed_, " and ", summed_, " x ", columns_);
    const std::string attributes = absl::StrCat("__attribute__((reqd_work_group_size(", across, ", ", down, ", 1)))");
    code.source = absl::StrCat(parameters_.head(function, display, attributes, false), text_, "}\n");
    return code;
  }

 private:
  static int64_t ceilDivided(int64_t value, int64_t by) { return (value + by - 1) / by; }

  template <typename... Parts>
  void line(const Parts&... parts) {
    absl::StrAppend(&text_, "  ", parts..., "\n");
  }

  const char* index() const { return parameters_.wide() ? "long" : "int"; }
  const char* value() const { return form_.real ? "float" : "int"; }
  std::string vectorType() const {
    return tiles_.item_columns == 1 ? std::string(value()) : absl::StrCat(value(), tiles_.item_columns);
  }

  /// The part of an access's position that `loops` move, given the number `point` of a point of them, as an
  /// expression: each loop is a digit of the number.
  std::string partOf(const SpatialAccess& access, const std::vector<int>& loops, const std::string& point) const {
    std::vector<std::string> terms;
    int64_t inside = 1;
    for (size_t i = loops.size(); i-- > 0;) {
      const int64_t extent = nest_.loops[static_cast<size_t>(loops[i])].extent;
      const int64_t stride = access.position.coefficientOf(loops[i]);
      if (stride != 0) {
        std::string digit = inside == 1 ? point : absl::StrCat(point, " / ", inside);
        if (i > 0) digit = absl::StrCat("(", digit, ") % ", extent);
        terms.push_back(absl::StrCat("(", index(), ")(", digit, ") * (", stride, ")"));
      }
      inside *= extent;
    }
    return terms.empty() ? "0" : absl::StrJoin(terms, " + ");
  }

  const SpatialAccess& rowFactor() const { return nest_.accesses[static_cast<size_t>(form_.row_factor)]; }
  const SpatialAccess& columnFactor() const { return nest_.accesses[static_cast<size_t>(form_.column_factor)]; }

  /// The smallest distance in memory by which one of the loops moves an access.
  static int64_t leastStride(const SpatialAccess& access, const std::vector<int>& loops) {
    int64_t least = INT64_MAX;
    for (const int loop : loops)
      if (const int64_t stride = access.position.coefficientOf(loop); stride != 0)
        least = std::min(least, std::abs(stride));
    return least;
  }

  /// An element of a factor as a number of the sum's type.
  std::string factor(const SpatialAccess& access, v1::DataType type, const std::string& position) const {
    std::string loaded = loadCode(access.dtype, parameters_.pointers()[static_cast<size_t>(access.buffer)], position);
    if (form_.real) return loaded;
    const bool is_unsigned = type == v1::DATA_TYPE_U8 || type == v1::DATA_TYPE_U16 || type == v1::DATA_TYPE_U32;
    return absl::StrCat("(int)", is_unsigned ? absl::StrCat("(", unsignedValueType(type), ")") : "", loaded);
  }

  void declare() {
    line("__local ", value(), " rows[", tiles_.summed, "][", tiles_.rows, "];");
    line("__local ", value(), " columns[", tiles_.summed, "][", tiles_.columns, "];");
    line("__local ", index(), " row_at[", tiles_.rows, "], row_to[", tiles_.rows, "], column_at[", tiles_.columns,
         "], column_to[", tiles_.columns, "], rows_k[", tiles_.summed, "], columns_k[", tiles_.summed, "];");
    line("const int x = get_local_id(0), y = get_local_id(1);");
    line("const int item = y * ", tiles_.columns / tiles_.item_columns, " + x;");
    line("const int first_row = get_group_id(1) * ", tiles_.rows, ", first_column = get_group_id(0) * ", tiles_.columns,
         ";");
    line("const int batch = get_global_id(2);");
  }

  /// Offsets of the group's rows and columns in the factors and in the output. Rows and columns outside of the matrices
  /// repeat the last one; their results are not stored.
  void writeOffsets() {
    const SpatialAccess& output = nest_.accesses[0];
    line("for (int i = item; i < ", tiles_.rows, "; i += ", tiles_.items(), ") {");
    line("  const int m = min(first_row + i, ", rows_ - 1, ");");
    line("  row_at[i] = ", partOf(rowFactor(), form_.rows, "m"), ";");
    line("  row_to[i] = ", partOf(output, form_.rows, "m"), ";");
    line("}");
    line("for (int i = item; i < ", tiles_.columns, "; i += ", tiles_.items(), ") {");
    line("  const int n = min(first_column + i, ", columns_ - 1, ");");
    line("  column_at[i] = ", partOf(columnFactor(), form_.columns, "n"), ";");
    line("  column_to[i] = ", partOf(output, form_.columns, "n"), ";");
    line("}");
    const auto base = [&](const char* name, const SpatialAccess& access) {
      line("const ", index(), " ", name, " = ", access.position.constant, " + ", partOf(access, form_.batch, "batch"),
           ";");
    };
    base("row_base", rowFactor());
    base("column_base", columnFactor());
    base("output_base", output);
    for (int64_t r = 0; r < tiles_.item_rows; ++r) line(vectorType(), " s", r, " = 0;");
  }

  void writeBlocks() {
    line("for (int first = 0; first < ", summed_, "; first += ", tiles_.summed, ") {");
    line("  for (int i = item; i < ", tiles_.summed, "; i += ", tiles_.items(), ") {");
    line("    const int k = min(first + i, ", summed_ - 1, ");");
    line("    rows_k[i] = row_base + ", partOf(rowFactor(), form_.summed, "k"), ";");
    line("    columns_k[i] = column_base + ", partOf(columnFactor(), form_.summed, "k"), ";");
    line("  }");
    line("  barrier(CLK_LOCAL_MEM_FENCE);");
    // The last block may be shorter.
    line("  const int count = min(", tiles_.summed, ", ", summed_, " - first);");
    // Neighbouring work-items read neighbouring elements where a factor has some.
    const auto copy = [&](const char* side, const char* at, int64_t size, const SpatialAccess& access,
                          const std::vector<int>& loops, v1::DataType type) {
      const bool along_k = leastStride(access, form_.summed) < leastStride(access, loops);
      const int64_t fastest = along_k ? tiles_.summed : size;
      const std::string first = absl::StrCat("i % ", fastest), second = absl::StrCat("i / ", fastest);
      const std::string &k = along_k ? first : second, &place = along_k ? second : first;
      line("  for (int i = item; i < ", size * tiles_.summed, "; i += ", tiles_.items(), ")");
      line("    if (", k, " < count) ", side, "[", k, "][", place,
           "] = ", factor(access, type, absl::StrCat(at, "[", place, "] + ", side, "_k[", k, "]")), ";");
    };
    copy("rows", "row_at", tiles_.rows, rowFactor(), form_.rows, form_.row_type);
    copy("columns", "column_at", tiles_.columns, columnFactor(), form_.columns, form_.column_type);
    line("  barrier(CLK_LOCAL_MEM_FENCE);");
    line("  for (int k = 0; k < count; ++k) {");
    if (tiles_.item_columns == 1) {
      line("    const ", vectorType(), " c = columns[k][x];");
    } else {
      line("    const ", vectorType(), " c = vload", tiles_.item_columns, "(x, columns[k]);");
    }
    for (int64_t r = 0; r < tiles_.item_rows; ++r) {
      const std::string row = absl::StrCat("(", vectorType(), ")(rows[k][y * ", tiles_.item_rows, " + ", r, "])");
      line("    s", r,
           form_.real ? absl::StrCat(" = t_mad(", row, ", c, s", r, ");") : absl::StrCat(" += ", row, " * c;"));
    }
    line("  }");
    // The next block overwrites what other work-items still read.
    line("  barrier(CLK_LOCAL_MEM_FENCE);");
    line("}");
  }

  /// Declares the numbers of the current iterations of `loops`, given the number `point` of a point of them.
  void declareLoops(const char* indent, const std::vector<int>& loops, const std::string& point) {
    int64_t inside = 1;
    for (size_t i = loops.size(); i-- > 0;) {
      const loopnest::Loop& loop = nest_.loops[static_cast<size_t>(loops[i])];
      std::string digit = inside == 1 ? point : absl::StrCat("(", point, ") / ", inside);
      if (i > 0) digit = absl::StrCat("(", digit, ") % ", loop.extent);
      line(indent, "const ", index(), " at_", loop.name, " = ", digit, ";");
      inside *= loop.extent;
    }
  }

  /// Stores one sum, or computes the epilogue of it and stores that.
  void writeResult() {
    const std::string sum = "result[r][i]";
    const SpatialAccess& output = nest_.accesses[0];
    if (after_ == nullptr) {
      line("    const ", index(), " at = output_base + row_to[m] + column_to[n];");
      const std::string& pointer = parameters_.pointers()[static_cast<size_t>(output.buffer)];
      const std::string old = loadCode(output.dtype, pointer, "at");
      line("    ", storeCode(output.dtype, pointer, "at", from_zero_ ? sum : absl::StrCat(old, " + ", sum)));
      return;
    }
    declareLoops("    ", form_.columns, "first_column + n");
    BodyNames names{.loops = {}, .values = {}, .pointers = parameters_.pointers()};
    for (const int loop : epilogue_->loops)
      names.loops.push_back(loop < 0 ? "0" : absl::StrCat("at_", nest_.loops[static_cast<size_t>(loop)].name));
    for (size_t a = 0; a < after_->accesses.size(); ++a) {
      const SpatialAccess& access = after_->accesses[a];
      names.values.push_back(absl::StrCat("v", a));
      if (!after_->reads(static_cast<int>(a))) continue;
      const std::string value = access.buffer == output.buffer
                                    ? roundedCode(access.dtype, sum)
                                    : loadCode(access.dtype, parameters_.pointers()[static_cast<size_t>(access.buffer)],
                                               subscriptCode(access.position, names.loops, parameters_.wide()));
      line("    const ", valueType(access.dtype), " v", a, " = ", value, ";");
    }
    const BodyCode body = bodyCode(*after_, names, kernel_.elements, "      ");
    text_ += body.statements;
    const SpatialAccess& to = after_->accesses[0];
    line("    ", storeCode(to.dtype, parameters_.pointers()[static_cast<size_t>(to.buffer)],
                           subscriptCode(to.position, names.loops, parameters_.wide()), body.yields[0]));
  }

  void writeResults() {
    if (after_ != nullptr) declareLoops("", form_.batch, "batch");
    line(value(), " result[", tiles_.item_rows, "][", tiles_.item_columns, "];");
    for (int64_t r = 0; r < tiles_.item_rows; ++r) {
      if (tiles_.item_columns == 1) {
        line("result[", r, "][0] = s", r, ";");
      } else {
        line("vstore", tiles_.item_columns, "(s", r, ", 0, result[", r, "]);");
      }
    }
    line("for (int r = 0, m = y * ", tiles_.item_rows, "; r < ", tiles_.item_rows, " && first_row + m < ", rows_,
         "; ++r, ++m) {");
    if (after_ != nullptr) declareLoops("  ", form_.rows, "first_row + m");
    line("  for (int i = 0, n = x * ", tiles_.item_columns, "; i < ", tiles_.item_columns, " && first_column + n < ",
         columns_, "; ++i, ++n) {");
    writeResult();
    line("  }");
    line("}");
  }

  const SpatialNest& nest_;
  const simulator::CheckedKernel& kernel_;
  const MatrixForm& form_;
  const ProductTiles& tiles_;
  const Epilogue* epilogue_;
  const SpatialNest* after_;  // the epilogue's nest, or null
  const Parameters parameters_;
  const int64_t rows_, columns_, summed_;
  bool from_zero_ = false;
  std::string text_;
};

}  // namespace

FunctionCode productFunction(const std::string& function, const SpatialNest& nest,
                             const simulator::CheckedKernel& kernel, const MatrixForm& form, const ProductTiles& tiles,
                             bool from_zero, const Epilogue* epilogue) {
  return ProductWriter(nest, kernel, form, tiles, epilogue).write(function, from_zero);
}

}  // namespace tessera::compiler::opencl
