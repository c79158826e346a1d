#include "compiler/intrinsic/program.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/intrinsic/block_layout.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/validate_intrinsic.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

using Point = std::vector<int64_t>;

int64_t product(const Point& extents) {
  int64_t size = 1;
  for (int64_t extent : extents) size = saturatedProduct(size, extent);
  return size;
}

class Writer {
 public:
  Writer(const Nest& software, const Nest& instruction, const v1::Intrinsic& intrinsic, const Matching& matching,
         const PhysicalMapping& mapping, size_t most)
      : most_(most),
        software_(software),
        instruction_(instruction),
        intrinsic_(intrinsic),
        matching_(matching),
        mapping_(mapping) {}

  Program write() {
    for (const Access& array : software_.accesses) {
      shapes_.push_back(shapeOf(software_, array));
      program_.buffers.push_back({kAnyMemory, array.name, product(shapes_.back())});
    }
    for (size_t i = 0; i < instruction_.accesses.size(); ++i) addOperand(i);
    // Parallel blocks outside, blocks of the sum inside.
    std::vector<int> kept, summed;
    const int iterations = static_cast<int>(instruction_.loops.size());
    for (int i = 0; i < iterations; ++i) (instruction_.isReduction(i) ? summed : kept).push_back(i);
    for (int loop : mapping_.outer) {
      (software_.isReduction(loop) ? summed : kept).push_back(iterations + loop);
    }
    outer_.assign(software_.loops.size(), 0);
    block_.assign(iterations, 0);
    forEachPoint(extentsOf(kept), [&](const Point& result) {
      if (full()) return;
      place(kept, result);
      bring(0);
      forEachPoint(extentsOf(summed), [&](const Point& part) {
        if (full()) return;
        place(summed, part);
        for (size_t operand = 1; operand < instruction_.accesses.size(); ++operand) bring(operand);
        program_.steps.emplace_back().call = true;
      });
      // A result's position does not depend on the summed loops.
      place(summed, Point(summed.size(), 0));
      if (program_.complete) takeResult();
    });
    return std::move(program_);
  }

 private:
  /// An operand's path: buffers from the tensor to where the instruction reads, and their layouts.
  struct Way {
    std::vector<int> buffers;
    std::vector<BlockLayout> layouts;  ///< from buffers[1]; the last one is row-major
  };

  Point extentsOf(const std::vector<int>& dimensions) const {
    Point extents;
    const int iterations = static_cast<int>(instruction_.loops.size());
    for (int d : dimensions) {
      extents.push_back(d < iterations ? mapping_.groups[d].steps : software_.loops[d - iterations].extent);
    }
    return extents;
  }

  void place(const std::vector<int>& dimensions, const Point& point) {
    const int iterations = static_cast<int>(instruction_.loops.size());
    for (size_t i = 0; i < dimensions.size(); ++i) {
      (dimensions[i] < iterations ? block_[dimensions[i]] : outer_[dimensions[i] - iterations]) = point[i];
    }
  }

  void addOperand(size_t index) {
    const v1::Intrinsic::Operand& operand = intrinsic_.operands(static_cast<int>(index));
    const Point shape = shapeOf(instruction_, instruction_.accesses[index]);
    const Route route = routeOf(intrinsic_, index);
    Way in, out;
    const auto extend = [&](Way& way, const std::string& memory, const v1::Intrinsic::Transfer* layout) {
      way.layouts.emplace_back(shape, layout);
      way.buffers.push_back(static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({memory, operand.name(), way.layouts.back().elements()});
    };
    in.buffers.push_back(arrayOf(matching_, index));
    for (const Stop& stop : route.in) extend(in, stop.memory, stop.layout);
    program_.operands.push_back(in.buffers.back());
    if (index == 0) {
      out.buffers.push_back(in.buffers.back());
      for (const Stop& stop : route.out) extend(out, stop.memory, stop.layout);
      out_ = std::move(out);
    }
    ways_.push_back(std::move(in));
  }

  /// The tensor element at position `iterations` of the operand's block; nothing beyond the operator's extents.
  std::optional<int64_t> elementOf(size_t operand, const Point& iterations) const {
    Point point = outer_;
    for (size_t i = 0; i < mapping_.groups.size(); ++i) {
      const Group& group = mapping_.groups[i];
      if (!instruction_.accesses[operand].uses(static_cast<int>(i))) continue;
      int64_t index = block_[i] * group.size + iterations[i];
      if (index >= group.extent) return std::nullopt;
      // Takes the index apart by div and mod, last loop fastest.
      for (size_t l = group.loops.size(); l-- > 0;) {
        const int64_t extent = software_.loops[group.loops[l]].extent;
        point[group.loops[l]] = index % extent;
        index /= extent;
      }
    }
    const int array = arrayOf(matching_, operand);
    Point subscripts;
    for (const Subscript& subscript : software_.accesses[array].subscripts) subscripts.push_back(subscript.at(point));
    return rowMajor(subscripts, shapes_[array]);
  }

  /// For each block position in row-major order: its tensor element, -1 for padding.
  std::map<Point, int64_t> contentOf(size_t operand) const {
    const Access& access = instruction_.accesses[operand];
    Point extents;
    for (size_t i = 0; i < instruction_.loops.size(); ++i) {
      extents.push_back(access.uses(static_cast<int>(i)) ? instruction_.loops[i].extent : 1);
    }
    std::map<Point, int64_t> content;
    forEachPoint(shapeOf(instruction_, access), [&](const Point& index) { content[index] = -1; });
    forEachPoint(extents, [&](const Point& iterations) {
      const std::optional<int64_t> element = elementOf(operand, iterations);
      if (!element) return;
      Point index;
      for (const Subscript& subscript : access.subscripts) index.push_back(subscript.at(iterations));
      content[index] = *element;
    });
    return content;
  }

  void bring(size_t operand) {
    const std::map<Point, int64_t> content = contentOf(operand);
    const Way& way = ways_[operand];
    for (size_t leg = 0; leg + 1 < way.buffers.size(); ++leg) {
      Step::Copy& copy = program_.steps.emplace_back().copy;
      copy.from = way.buffers[leg];
      copy.to = way.buffers[leg + 1];
      for (const auto& [index, element] : content) {
        copy.moves.emplace_back(leg == 0 ? element : way.layouts[leg - 1].at(index), way.layouts[leg].at(index));
      }
    }
  }

  void takeResult() {
    const std::map<Point, int64_t> content = contentOf(0);
    const BlockLayout& home = ways_[0].layouts.back();
    for (size_t leg = 0; leg < out_.buffers.size(); ++leg) {
      Step::Copy& copy = program_.steps.emplace_back().copy;
      const bool last = leg + 1 == out_.buffers.size();
      copy.from = out_.buffers[leg];
      copy.to = last ? 0 : out_.buffers[leg + 1];
      for (const auto& [index, element] : content) {
        if (last && element < 0) continue;
        copy.moves.emplace_back(leg == 0 ? home.at(index) : out_.layouts[leg - 1].at(index),
                                last ? element : out_.layouts[leg].at(index));
      }
    }
  }

  bool full() {
    if (program_.steps.size() >= most_) program_.complete = false;
    return !program_.complete;
  }

  const size_t most_;
  const Nest &software_, &instruction_;
  const v1::Intrinsic& intrinsic_;
  const Matching& matching_;
  const PhysicalMapping& mapping_;
  Program program_;
  std::vector<Point> shapes_;
  std::vector<Way> ways_;
  Way out_;      // buffers[0] receives the instruction's result
  Point outer_;  // values of the loops outside, 0 for the others
  Point block_;  // steps of the groups
};

}  // namespace

absl::StatusOr<Program> programOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                  const PhysicalMapping& mapping, size_t most) {
  TESSERA_ASSIGN_OR_RETURN(const Nest instruction, nestOf(intrinsic));
  // elements of an operand that one call takes, or the points that read them if more: windows overlap
  int64_t block = 0;
  for (size_t operand = 0; operand < mapping.operands.size(); ++operand) {
    int64_t points = 1;
    for (size_t i = 0; i < instruction.loops.size(); ++i) {
      if (!instruction.accesses[operand].uses(static_cast<int>(i))) continue;
      points = saturatedProduct(points, instruction.loops[i].extent);
    }
    block = std::max({block, points, mapping.operands[operand].block_elements});
  }
  const int64_t copies = static_cast<int64_t>(mapping.operands.size() + intrinsic.transfers().size());
  const int64_t calls = static_cast<int64_t>(std::min<size_t>(static_cast<size_t>(mapping.calls), most));
  const int64_t moves = saturatedProduct(saturatedProduct(calls, block), copies);
  if (moves > kMaxMoves) {
    return absl::ResourceExhaustedError(absl::StrCat("the program of ", mapping.calls, " calls moves about ", moves,
                                                     " elements; at most ", kMaxMoves, " are written out"));
  }
  return Writer(software, instruction, intrinsic, matching, mapping, most).write();
}

std::string print(const Program& program, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, program.steps.size()); ++i) {
    const Step& step = program.steps[i];
    if (step.call) {
      absl::StrAppend(&text, "call\n");
      continue;
    }
    const Buffer &from = program.buffers[step.copy.from], &to = program.buffers[step.copy.to];
    const auto padded =
        std::count_if(step.copy.moves.begin(), step.copy.moves.end(), [](const auto& move) { return move.first < 0; });
    absl::StrAppend(&text, "copy ", from.memory, ".", from.name, " -> ", to.memory, ".", to.name, ", ",
                    step.copy.moves.size(), " elements");
    absl::StrAppend(&text, padded > 0 ? absl::StrCat(", ", padded, " padded") : "", "\n");
  }
  if (!program.complete) {
    text += "...\n";
  } else if (most < program.steps.size()) {
    absl::StrAppend(&text, "... ", program.steps.size() - most, " more steps\n");
  }
  return text;
}

}  // namespace tessera::compiler::intrinsic
