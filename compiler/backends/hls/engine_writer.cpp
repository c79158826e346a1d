#include "compiler/backends/hls/engine_writer.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/hls/cpp_text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

using simulator::SpatialNest;

std::string pragma(const std::string& text) { return absl::StrCat("#pragma HLS ", text, "\n"); }

/// Lines of text with an indentation that loops increase.
class Lines {
 public:
  explicit Lines(int depth) : depth_(depth) {}
  void add(const std::string& line) {
    absl::StrAppend(&text_, std::string(static_cast<size_t>(2 * depth_), ' '), line, "\n");
  }
  void pragma(const std::string& line) { text_ += hls::pragma(line); }
  void open(const std::string& line) {
    add(line + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    add("}");
  }
  void closeTo(int depth) {
    while (depth_ > depth) close();
  }
  int depth() const { return depth_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_;
};

/// The text of a body: each operation that a value needs becomes one constant, in order.
class BodyText {
 public:
  /// elements[a] is the text of access a; empty: not used. loops[l] is the global index of loop l.
  BodyText(const SpatialNest& nest, const std::vector<std::string>& elements, const std::vector<std::string>& loops)
      : nest_(nest), loops_(loops), values_(nest.accesses.size() + nest.body.size()) {
    std::ranges::copy(elements, values_.begin());
  }

  /// The name of a value. The operations that it depends on are added to `lines` first.
  absl::StatusOr<std::string> value(int number, Lines& lines) {
    std::string& known = values_[static_cast<size_t>(number)];
    if (!known.empty()) return known;
    const size_t o = static_cast<size_t>(number) - nest_.accesses.size();
    const simulator::SpatialOperation& op = nest_.body[o];
    std::vector<std::string> operands;
    for (int operand : op.operands) {
      TESSERA_ASSIGN_OR_RETURN(std::string text, value(operand, lines));
      operands.push_back(std::move(text));
    }
    TESSERA_ASSIGN_OR_RETURN(const std::string type, cppType(op.dtype));
    std::string expression;
    if (op.name == "index") {
      expression = absl::StrCat(type, "(", loops_[static_cast<size_t>(op.loop)], ")");
    } else if (op.name == "load") {
      expression = absl::StrCat("from", o, "[", op.access.offset);
      for (size_t i = 0; i < operands.size(); ++i)
        absl::StrAppend(&expression, " + ", op.access.strides[i], " * int64_t(", operands[i], ")");
      expression += "]";
    } else {
      TESSERA_ASSIGN_OR_RETURN(expression, cppExpression(nest_, o, operands));
    }
    if (op.name == "constant") return known = expression;
    lines.add(absl::StrCat("const ", type, " v", number, " = ", expression, ";"));
    return known = absl::StrCat("v", number);
  }

 private:
  const SpatialNest& nest_;
  const std::vector<std::string>& loops_;
  std::vector<std::string> values_;
};

/// Every point of a nest in order. `element` is the text of an access's element.
template <typename Element>
absl::Status writePlainLoops(const SpatialNest& nest, Lines& lines, Element element) {
  std::vector<std::string> loops, elements;
  const int depth = lines.depth();
  for (const std::string& name : cppLoopNames(nest)) {
    const std::string i = name + "_i";
    lines.open(absl::StrCat("for (int64_t ", i, " = 0; ", i, " < ", nest.loops[loops.size()].extent, "; ++", i, ")"));
    loops.push_back(i);
  }
  for (size_t a = 0; a < nest.accesses.size(); ++a)
    elements.push_back(absl::StrCat(element(a), "[", cppSubscript(nest.accesses[a].position, loops), "]"));
  BodyText body(nest, elements, loops);
  std::vector<std::string> stored;
  for (int value : nest.yields) {
    TESSERA_ASSIGN_OR_RETURN(std::string text, body.value(value, lines));
    stored.push_back(std::move(text));
  }
  for (size_t output = 0; output < stored.size(); ++output)
    lines.add(absl::StrCat(elements[output], " = ", stored[output], ";"));
  lines.closeTo(depth);
  return absl::OkStatus();
}

class EngineWriter {
 public:
  EngineWriter(const Design& design, std::string name, const Device& device)
      : design_(design),
        form_(*design.form),
        nest_(*form_.nest),
        name_(std::move(name)),
        device_(device),
        names_(cppLoopNames(nest_)) {}

  absl::StatusOr<Engine> run() {
    if (design_.isDirect()) {
      TESSERA_RETURN_IF_ERROR(writeDirect());
      return std::move(engine_);
    }
    for (size_t l = 0; l < form_.loops(); ++l) {
      origins_.push_back(names_[l] + "_0");
      sizes_.push_back(names_[l] + "_n");
    }
    for (const Buffer& buffer : design_.buffers) TESSERA_RETURN_IF_ERROR(writeTransfer(buffer));
    TESSERA_RETURN_IF_ERROR(writeCompute());
    TESSERA_RETURN_IF_ERROR(writeTop());
    return std::move(engine_);
  }

 private:
  std::string tileName(const Buffer& buffer) const {
    return absl::StrCat(buffer.written ? "out" : "in", buffer.access);
  }
  absl::StatusOr<std::string> typeOf(const Buffer& buffer) const {
    return cppType(nest_.accesses[buffer.access].dtype);
  }
  absl::StatusOr<std::string> tileParameter(const Buffer& buffer, bool constant) const {
    TESSERA_ASSIGN_OR_RETURN(const std::string type, typeOf(buffer));
    return absl::StrCat(constant ? "const " : "", type, " ", tileName(buffer), shapeText(buffer));
  }
  static std::string shapeText(const Buffer& buffer) {
    return absl::StrCat("[", absl::StrJoin(buffer.shape, "]["), "]");
  }

  /// Origin and number of iterations of every loop that is tiled, from the number of the step; other loops' sizes.
  /// Reductions are the innermost loops of steps.
  void writeOrigins(Lines& lines, bool flags) const {
    int64_t inner = 1;
    std::vector<std::string> texts;
    for (const bool reductions : {true, false}) {
      for (size_t loop = form_.loops(); loop-- > 0;) {
        if (form_.reduction[loop] != reductions) continue;
        const int64_t extent = form_.extent(loop), tile = design_.tiling.tile[loop], tiles = (extent + tile - 1) / tile;
        if (tiles == 1) {
          texts.push_back(
              absl::StrCat("const int64_t ", origins_[loop], " = 0; const int ", sizes_[loop], " = ", extent, ";"));
          continue;
        }
        const std::string step = inner == 1 ? "step" : absl::StrCat("step / ", inner);
        texts.push_back(absl::StrCat("const int64_t ", origins_[loop], " = ", step, " % ", tiles, " * ", tile, ";"));
        texts.push_back(extent % tile == 0 ? absl::StrCat("const int ", sizes_[loop], " = ", tile, ";")
                                           : absl::StrCat("const int ", sizes_[loop], " = ", "int(std::min<int64_t>(",
                                                          tile, ", ", extent, " - ", origins_[loop], "));"));
        inner *= tiles;
      }
      if (reductions && flags) {
        texts.push_back(absl::StrCat("const bool first = step % ", inner, " == 0;"));
        texts.push_back(absl::StrCat("const bool last = step % ", inner, " == ", inner - 1, ";"));
      }
    }
    for (const std::string& text : texts) lines.add(text);
    std::string unused;
    for (size_t loop = 0; loop < form_.loops(); ++loop)
      absl::StrAppend(&unused, "(void)", origins_[loop], ", (void)", sizes_[loop], ", ");
    lines.add(absl::StrCat(unused, flags ? "(void)first, (void)last;" : "(void)step;"));
  }

  /// The smallest value of a dimension in the tile, from its loops' origins and sizes, and its number of values.
  std::pair<std::string, std::string> rangeText(const Buffer& buffer, size_t d) const {
    const Dimension& dimension = buffer.box.dimensions[d];
    if (dimension.digits >= 0) {
      const auto& subscript = nest_.accesses[buffer.access].subscripts[static_cast<size_t>(dimension.digits)];
      const loopnest::Range range = loopnest::rangeOf(subscript, nest_.extents());
      return {absl::StrCat(range.low), absl::StrCat(range.high - range.low + 1)};
    }
    std::string low = cppSum(dimension.coefficients, origins_, dimension.constant), extent = "1";
    for (size_t l = 0; l < form_.loops(); ++l) {
      const int64_t coefficient = dimension.coefficients[l];
      if (coefficient == 0) continue;
      if (coefficient < 0) absl::StrAppend(&low, " - ", -coefficient, " * (", sizes_[l], " - 1)");
      absl::StrAppend(&extent, " + ", std::abs(coefficient), " * (", sizes_[l], " - 1)");
    }
    return {low, extent};
  }

  /// The element of a tile at the point whose indices within the tile are `loops`.
  std::string elementText(const Buffer& buffer, const std::string& array, const std::vector<std::string>& loops) const {
    std::string text = array;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const Dimension& dimension = buffer.box.dimensions[d];
      if (dimension.digits >= 0) {
        std::vector<std::string> global;
        for (size_t l = 0; l < loops.size(); ++l)
          global.push_back(absl::StrCat("(", origins_[l], " + ", loops[l], ")"));
        const auto& subscript = nest_.accesses[buffer.access].subscripts[static_cast<size_t>(dimension.digits)];
        absl::StrAppend(&text, "[", cppSubscript(subscript, global), " - ", rangeText(buffer, d).first, "]");
        continue;
      }
      std::string index = cppSum(dimension.coefficients, loops, 0);
      for (size_t l = 0; l < loops.size(); ++l)
        if (dimension.coefficients[l] < 0)
          absl::StrAppend(&index, " + ", -dimension.coefficients[l], " * (", sizes_[l], " - 1)");
      absl::StrAppend(&text, "[", index, "]");
    }
    return text;
  }

  /// A read or a write process: moves the tile of one step, `beat` elements a cycle.
  absl::Status writeTransfer(const Buffer& buffer) {
    TESSERA_ASSIGN_OR_RETURN(const std::string type, typeOf(buffer));
    TESSERA_ASSIGN_OR_RETURN(const std::string tile, tileParameter(buffer, buffer.written));
    const std::string verb = buffer.written ? "write_" : "read_";
    const std::string memory = absl::StrCat(buffer.written ? "" : "const ", type, " *memory");
    const bool old = !buffer.written && buffer.access < form_.outputs.size();
    Lines lines(0);
    lines.open(absl::StrCat("static void ", name_, "_", verb, tileName(buffer), "(",
                            buffer.written ? absl::StrCat(tile, ", ", memory) : absl::StrCat(memory, ", ", tile),
                            ", int64_t step)"));
    writeOrigins(lines, true);
    if (buffer.written)
      lines.add("if (!last) return;");
    else if (old)
      lines.add("if (!first) return;");
    std::string base = absl::StrCat(buffer.box.offset);
    std::string source = "base", index;
    std::vector<std::string> extents;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const auto [low, extent] = rangeText(buffer, d);
      absl::StrAppend(&base, " + ", buffer.box.dimensions[d].stride, " * (", low, ")");
      extents.push_back(extent);
    }
    lines.add(absl::StrCat("const int64_t base = ", base, ";"));
    const size_t innermost = buffer.shape.size() - 1;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const bool lanes = d == innermost && buffer.beat > 1;
      lines.add(absl::StrCat("const int e", d, " = ", extents[d], ";"));
      const std::string x = absl::StrCat("x", d, lanes ? " + lane" : "");
      absl::StrAppend(&source, " + ",
                      buffer.box.dimensions[d].stride == 1 ? "" : absl::StrCat(buffer.box.dimensions[d].stride, " * "),
                      lanes ? x : absl::StrCat("int64_t(", x, ")"));
      absl::StrAppend(&index, "[", x, "]");
    }
    const int depth = lines.depth();
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const std::string x = absl::StrCat("x", d);
      const int64_t by = d == innermost ? buffer.beat : 1;
      lines.open(absl::StrCat("for (int ", x, " = 0; ", x, " < e", d, "; ", x, " += ", by, ")"));
    }
    lines.pragma("pipeline II=1");
    if (buffer.beat > 1) {
      lines.open(absl::StrCat("for (int lane = 0; lane < ", buffer.beat, "; ++lane)"));
      lines.pragma("unroll");
      lines.add(absl::StrCat("if (x", innermost, " + lane >= e", innermost, ") continue;"));
    }
    const std::string from = absl::StrCat(tileName(buffer), index), to = absl::StrCat("memory[", source, "]");
    lines.add(buffer.written ? absl::StrCat(to, " = ", from, ";") : absl::StrCat(from, " = ", to, ";"));
    lines.closeTo(depth);
    lines.close();
    absl::StrAppend(&engine_.text, buffer.written ? "// Writes results of one step.\n" : "// Reads one step's tile.\n",
                    lines.take(), "\n");
    engine_.ports.push_back({.name = absl::StrCat(tileName(buffer), "_memory"),
                             .type = absl::StrCat(buffer.written ? "" : "const ", type, " *"),
                             .buffer = nest_.accesses[buffer.access].buffer,
                             .bank = buffer.bank});
    return absl::OkStatus();
  }

  const Buffer* bufferOf(size_t access, bool written) const {
    for (const Buffer& each : design_.buffers)
      if (each.access == access && each.written == written) return &each;
    return nullptr;
  }

  /// Whether tiles or edges of them are no multiple of the unroll factor.
  bool isRagged(size_t loop) const {
    const int64_t unroll = design_.tiling.unroll[loop];
    return design_.tiling.tile[loop] % unroll != 0 || form_.extent(loop) % design_.tiling.tile[loop] % unroll != 0;
  }

  /// The array with an output's partial sums.
  std::string sumsName(size_t output) const {
    for (const Buffer& each : design_.sums)
      if (each.access == output) return absl::StrCat("sums", output);
    return absl::StrCat("out", output);
  }

  absl::Status writeCompute() {
    std::vector<std::string> parameters;
    for (const Buffer& buffer : design_.buffers) {
      TESSERA_ASSIGN_OR_RETURN(std::string text, tileParameter(buffer, !buffer.written));
      parameters.push_back(std::move(text));
    }
    Lines lines(0);
    lines.open(absl::StrCat("static void ", name_, "_compute(", absl::StrJoin(parameters, ", "), ", int64_t step)"));
    writeOrigins(lines, true);
    for (const Buffer& each : design_.sums) {
      TESSERA_ASSIGN_OR_RETURN(const std::string type, typeOf(each));
      lines.add("// Partial sums stay from step to step.");
      lines.add(absl::StrCat("static ", type, " sums", each.access, shapeText(each), ";"));
      writeMemoryPragmas(lines, each, absl::StrCat("sums", each.access));
    }
    const int depth = lines.depth();
    std::vector<std::string> points(form_.loops());
    std::string at_first = "first";
    for (const bool reductions : {true, false}) {
      for (size_t l = 0; l < form_.loops(); ++l) {
        if (form_.reduction[l] != reductions) continue;
        const std::string i = names_[l] + "_i";
        lines.open(absl::StrCat("for (int ", i, " = 0; ", i, " < ", sizes_[l], "; ", i,
                                " += ", design_.tiling.unroll[l], ")"));
        points[l] = design_.tiling.unroll[l] == 1 ? i : absl::StrCat("(", i, " + ", names_[l], "_u)");
        if (reductions) absl::StrAppend(&at_first, " && ", i, " == 0");
      }
    }
    lines.pragma(absl::StrCat("pipeline II=", design_.interval));
    if (design_.distance > 0)
      for (size_t output = 0; output < form_.outputs.size(); ++output)
        lines.pragma(absl::StrCat("dependence variable=", sumsName(output),
                                  " type=inter direction=RAW distance=", design_.distance, " true"));
    const auto openLanes = [&](size_t l) {
      const std::string& name = names_[l];
      lines.open(
          absl::StrCat("for (int ", name, "_u = 0; ", name, "_u < ", design_.tiling.unroll[l], "; ++", name, "_u)"));
      lines.pragma("unroll");
      if (isRagged(l) && !form_.reduction[l])
        lines.add(absl::StrCat("if (", name, "_i + ", name, "_u >= ", sizes_[l], ") continue;"));
    };
    for (size_t l = 0; l < form_.loops(); ++l)
      if (!form_.reduction[l] && design_.tiling.unroll[l] > 1) openLanes(l);
    TESSERA_RETURN_IF_ERROR(writePoint(lines, points, at_first, openLanes));
    lines.closeTo(depth);
    lines.close();
    absl::StrAppend(&engine_.text, "// ", design_.processingElements(), " processing elements.\n", lines.take(), "\n");
    return absl::OkStatus();
  }

  /// The elements of the inputs at a point.
  std::vector<std::string> inputElements(const std::vector<std::string>& points) const {
    std::vector<std::string> elements(nest_.accesses.size());
    for (size_t a = form_.outputs.size(); a < elements.size(); ++a)
      if (const Buffer* buffer = bufferOf(a, false)) elements[a] = elementText(*buffer, tileName(*buffer), points);
    return elements;
  }

  /// An output's content before the point, and the place of its sum.
  absl::StatusOr<std::string> oldText(size_t output, const std::vector<std::string>& points,
                                      const std::string& at_first) const {
    const Combination& combination = form_.outputs[output];
    const v1::DataType type = nest_.accesses[output].dtype;
    std::string start;
    if (combination.initial.empty()) {
      start = elementText(*bufferOf(output, false), absl::StrCat("in", output), points);
    } else {
      TESSERA_ASSIGN_OR_RETURN(start, cppLiteral(combination.initial, type));
    }
    if (!form_.reduces()) return start;
    return absl::StrCat(at_first, " ? ", start, " : ", elementText(*bufferOf(output, true), sumsName(output), points));
  }

  template <typename OpenLanes>
  absl::Status writePoint(Lines& lines, const std::vector<std::string>& points, const std::string& at_first,
                          OpenLanes openLanes) {
    std::vector<std::string> elements = inputElements(points), global;
    for (size_t l = 0; l < form_.loops(); ++l) global.push_back(absl::StrCat("(", origins_[l], " + ", points[l], ")"));
    int64_t unrolled = 1;
    for (size_t l = 0; l < form_.loops(); ++l)
      if (form_.reduction[l]) unrolled *= design_.tiling.unroll[l];
    if (unrolled > 1) TESSERA_RETURN_IF_ERROR(writeTree(lines, elements, global, unrolled, openLanes));
    std::vector<std::string> stored;
    for (size_t output = 0; output < form_.outputs.size(); ++output) {
      if (!form_.outputs[output].reads_old) continue;
      TESSERA_ASSIGN_OR_RETURN(const std::string type, cppType(nest_.accesses[output].dtype));
      TESSERA_ASSIGN_OR_RETURN(const std::string old, oldText(output, points, at_first));
      lines.add(absl::StrCat("const ", type, " old", output, " = ", old, ";"));
      elements[output] = absl::StrCat("old", output);
    }
    BodyText body(nest_, elements, global);
    for (size_t output = 0; output < form_.outputs.size(); ++output) {
      if (unrolled == 1) {
        TESSERA_ASSIGN_OR_RETURN(std::string value, body.value(nest_.yields[output], lines));
        stored.push_back(std::move(value));
        continue;
      }
      TESSERA_ASSIGN_OR_RETURN(std::string value,
                               combined(output, elements[output], absl::StrCat("part", output, "[0]")));
      stored.push_back(std::move(value));
    }
    for (size_t output = 0; output < stored.size(); ++output) {
      const std::string to = elementText(*bufferOf(output, true), absl::StrCat("out", output), points);
      TESSERA_ASSIGN_OR_RETURN(const std::string type, cppType(nest_.accesses[output].dtype));
      lines.add(absl::StrCat("const ", type, " new", output, " = ", stored[output], ";"));
      if (sumsName(output) == absl::StrCat("out", output)) {
        lines.add(absl::StrCat(to, " = new", output, ";"));
      } else {
        lines.add(absl::StrCat(elementText(*bufferOf(output, true), sumsName(output), points), " = new", output, ";"));
        lines.add(absl::StrCat("if (last) ", to, " = new", output, ";"));
      }
    }
    return absl::OkStatus();
  }

  /// The combining operation of an output, applied to two texts.
  absl::StatusOr<std::string> combined(size_t output, const std::string& left, const std::string& right) const {
    return cppExpression(nest_, static_cast<size_t>(form_.outputs[output].operation), {left, right});
  }

  /// Unrolled iterations of reductions: their contributions, then a tree of combining operations.
  template <typename OpenLanes>
  absl::Status writeTree(Lines& lines, const std::vector<std::string>& elements, const std::vector<std::string>& global,
                         int64_t unrolled, OpenLanes openLanes) {
    for (size_t output = 0; output < form_.outputs.size(); ++output) {
      TESSERA_ASSIGN_OR_RETURN(const std::string type, cppType(nest_.accesses[output].dtype));
      lines.add(absl::StrCat(type, " part", output, "[", unrolled, "];"));
      lines.pragma(absl::StrCat("array_partition variable=part", output, " complete"));
    }
    const int depth = lines.depth();
    std::string position = "0", there;
    for (size_t l = 0; l < form_.loops(); ++l) {
      if (!form_.reduction[l] || design_.tiling.unroll[l] == 1) continue;
      openLanes(l);
      const std::string& name = names_[l];
      position = position == "0" ? name + "_u"
                                 : absl::StrCat("(", position, ") * ", design_.tiling.unroll[l], " + ", name, "_u");
      if (isRagged(l)) absl::StrAppend(&there, there.empty() ? "" : " && ", name, "_i + ", name, "_u < ", sizes_[l]);
    }
    const int inner = lines.depth();
    if (!there.empty()) {
      for (size_t output = 0; output < form_.outputs.size(); ++output) {
        TESSERA_ASSIGN_OR_RETURN(const std::string neutral,
                                 neutralLiteral(nest_.body[static_cast<size_t>(form_.outputs[output].operation)].name,
                                                nest_.accesses[output].dtype));
        lines.add(absl::StrCat("part", output, "[", position, "] = ", neutral, ";"));
      }
      lines.open(absl::StrCat("if (", there, ")"));
    }
    BodyText body(nest_, elements, global);
    for (size_t output = 0; output < form_.outputs.size(); ++output) {
      TESSERA_ASSIGN_OR_RETURN(const std::string value, body.value(form_.outputs[output].contribution, lines));
      lines.add(absl::StrCat("part", output, "[", position, "] = ", value, ";"));
    }
    lines.closeTo(inner);
    lines.closeTo(depth);
    lines.open(absl::StrCat("for (int apart = 1; apart < ", unrolled, "; apart *= 2)"));
    lines.pragma("unroll");
    lines.open(absl::StrCat("for (int at = 0; at + apart < ", unrolled, "; at += 2 * apart)"));
    lines.pragma("unroll");
    for (size_t output = 0; output < form_.outputs.size(); ++output) {
      const std::string part = absl::StrCat("part", output);
      TESSERA_ASSIGN_OR_RETURN(const std::string sum, combined(output, part + "[at]", part + "[at + apart]"));
      lines.add(absl::StrCat(part, "[at] = ", sum, ";"));
    }
    lines.close();
    lines.close();
    return absl::OkStatus();
  }

  static void writeMemoryPragmas(Lines& lines, const Buffer& buffer, const std::string& variable) {
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      if (buffer.partition[d] == 1) continue;
      const std::string kind = buffer.partition[d] == buffer.shape[d]
                                   ? "type=complete"
                                   : absl::StrCat("type=cyclic factor=", buffer.partition[d]);
      lines.pragma(absl::StrCat("array_partition variable=", variable, " ", kind, " dim=", d + 1));
    }
    if (buffer.storage != Storage::kRegisters)
      lines.pragma(
          absl::StrCat("bind_storage variable=", variable, " type=ram_t2p impl=", storageName(buffer.storage)));
  }

  absl::Status writeTop() {
    std::vector<std::string> parameters, reads, writes, tiles;
    Lines lines(0);
    for (const PortArgument& port : engine_.ports) parameters.push_back(absl::StrCat(port.type, port.name));
    lines.open(absl::StrCat("static void ", name_, "(", absl::StrJoin(parameters, ", "), ")"));
    lines.open(absl::StrCat("for (int64_t step = 0; step < ", static_cast<int64_t>(stepsOf(design_)), "; ++step)"));
    lines.pragma("dataflow");
    for (const Buffer& buffer : design_.buffers) {
      TESSERA_ASSIGN_OR_RETURN(const std::string type, typeOf(buffer));
      const std::string name = tileName(buffer);
      lines.add(absl::StrCat("TESSERA_TILE ", type, " ", name, shapeText(buffer), ";"));
      writeMemoryPragmas(lines, buffer, name);
      tiles.push_back(name);
      (buffer.written ? writes : reads)
          .push_back(buffer.written ? absl::StrCat(name_, "_write_", name, "(", name, ", ", name, "_memory, step);")
                                    : absl::StrCat(name_, "_read_", name, "(", name, "_memory, ", name, ", step);"));
    }
    for (const std::string& each : reads) lines.add(each);
    lines.add(absl::StrCat(name_, "_compute(", absl::StrJoin(tiles, ", "), ", step);"));
    for (const std::string& each : writes) lines.add(each);
    lines.closeTo(0);
    absl::StrAppend(&engine_.text, "// ", design_.form->nest->name, ": ", static_cast<int64_t>(stepsOf(design_)),
                    " steps, predicted ", static_cast<int64_t>(design_.cycles), " cycles.\n", lines.take(), "\n");
    return absl::OkStatus();
  }

  /// Every point accesses external memory.
  absl::Status writeDirect() {
    std::vector<std::string> parameters;
    Lines lines(0);
    const auto addPort = [&](const std::string& name, int buffer, v1::DataType dtype, bool constant) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const std::string type, cppType(dtype));
      engine_.ports.push_back({.name = name,
                               .type = absl::StrCat(constant ? "const " : "", type, " *"),
                               .buffer = buffer,
                               .bank = static_cast<int>(engine_.ports.size()) % static_cast<int>(device_.banks())});
      parameters.push_back(absl::StrCat(engine_.ports.back().type, name));
      return absl::OkStatus();
    };
    for (size_t a = 0; a < nest_.accesses.size(); ++a)
      TESSERA_RETURN_IF_ERROR(
          addPort(absl::StrCat("at", a), nest_.accesses[a].buffer, nest_.accesses[a].dtype, a >= form_.outputs.size()));
    for (size_t o = 0; o < nest_.body.size(); ++o)
      if (nest_.body[o].name == "load")
        TESSERA_RETURN_IF_ERROR(
            addPort(absl::StrCat("from", o), nest_.body[o].access.buffer, nest_.body[o].access.dtype, true));
    lines.open(absl::StrCat("static void ", name_, "(", absl::StrJoin(parameters, ", "), ")"));
    TESSERA_RETURN_IF_ERROR(writePlainLoops(nest_, lines, [](size_t a) { return absl::StrCat("at", a); }));
    lines.close();
    absl::StrAppend(&engine_.text, "// ", nest_.name, ": every point accesses external memory, because the nest ",
                    form_.direct, ".\n", lines.take(), "\n");
    return absl::OkStatus();
  }

  const Design& design_;
  const Form& form_;
  const SpatialNest& nest_;
  std::string name_;
  const Device& device_;
  std::vector<std::string> names_;
  std::vector<std::string> origins_, sizes_;  // names of each loop's first iteration in a step, and their number
  Engine engine_;
};

}  // namespace

absl::StatusOr<Engine> engineOf(const Design& design, const std::string& name, const Device& device) {
  return EngineWriter(design, name, device).run();
}

absl::StatusOr<std::string> plainLoops(const SpatialNest& nest, const std::string& indent) {
  Lines lines(static_cast<int>(indent.size() / 2));
  for (size_t o = 0; o < nest.body.size(); ++o)
    if (nest.body[o].name == "load")
      lines.add(absl::StrCat("const auto *from", o, " = b", nest.body[o].access.buffer, ";"));
  TESSERA_RETURN_IF_ERROR(
      writePlainLoops(nest, lines, [&](size_t a) { return absl::StrCat("b", nest.accesses[a].buffer); }));
  return lines.take();
}

}  // namespace tessera::compiler::hls
