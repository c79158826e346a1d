#include "compiler/fusion/testing/block_program.h"

#include <algorithm>

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/structure.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::fusion {
namespace {

class Tracer {
 public:
  Tracer(const BlockProgram& program, CacheSimulator& cache)
      : program_(program),
        chain_(program.chain),
        cache_(cache),
        structure_(chain_, program.order, IntermediateExtent::kRetained),
        at_(chain_.loops.size(), 0) {
    int64_t line = 0;
    for (size_t t = 0; t < chain_.accesses.size(); ++t) {
      Layout layout;
      layout.first_line = line;
      layout.row_loop = chain_.accesses[t].subscripts[0].terms[0].loop;
      layout.column_loop = chain_.accesses[t].subscripts[1].terms[0].loop;
      layouts_.push_back(layout);
      const int64_t high = program.tiles[layout.row_loop], wide = program.tiles[layout.column_loop];
      for (size_t member = 0; member < chain_.statements.size(); ++member) {
        const Statement& each = chain_.statements[member];
        if (each.output != static_cast<int>(t) && std::ranges::count(each.inputs, static_cast<int>(t)) == 0) continue;
        const auto [rows, columns] = packed(member, static_cast<int>(t));
        layout.block_lines =
            std::max(layout.block_lines, ceilDiv(high, rows) * ceilDiv(wide, columns) *
                                             lines(rows * columns * elementBytes(chain_.accesses[t].dtype)));
      }
      // An intermediate holds one block, or all blocks along retained loops.
      auto kept = [&](int loop) {
        return !chain_.isIntermediate(static_cast<int>(t)) || (structure_.retained[t] >> loop & 1);
      };
      layout.rows = kept(layout.row_loop) ? blocks(layout.row_loop) : 1;
      layout.columns = kept(layout.column_loop) ? blocks(layout.column_loop) : 1;
      line += layout.rows * layout.columns * layout.block_lines;
      layouts_.back() = layout;
    }
  }

  int64_t run() {
    nest(0);
    return touched_;
  }

 private:
  struct Layout {
    int64_t first_line = 0, block_lines = 0, rows = 1, columns = 1;
    int row_loop = 0, column_loop = 0;
  };

  int64_t lines(int64_t bytes) const { return ceilDiv(bytes, program_.line_bytes); }
  int64_t blocks(int loop) const { return ceilDiv(chain_.loops[loop].extent, program_.tiles[loop]); }
  int64_t width(int loop) const {
    return std::min(program_.tiles[loop], chain_.loops[loop].extent - at_[loop] * program_.tiles[loop]);
  }

  void nest(size_t level) {
    if (level == program_.order.size()) return body();
    const int loop = program_.order[level];
    for (at_[loop] = 0; at_[loop] < blocks(loop); ++at_[loop]) nest(level + 1);
    at_[loop] = 0;
  }

  void body() {
    for (const Statement& member : chain_.statements) {
      bool now = true;
      for (size_t loop = 0; loop < chain_.loops.size(); ++loop) {
        if (std::ranges::count(member.loops, static_cast<int>(loop))) continue;
        // The loop belongs to a later member: run before it starts; or to an earlier one: run after its last iteration.
        const bool earlier = std::ranges::any_of(chain_.statements, [&](const Statement& other) {
          return &other < &member && std::ranges::count(other.loops, static_cast<int>(loop));
        });
        now = now && at_[loop] == (earlier ? blocks(static_cast<int>(loop)) - 1 : 0);
      }
      if (now) block(member);
    }
  }

  struct Range {
    int64_t from, to;
    int64_t size() const { return to - from; }
  };
  /// Per loop of the chain: the range that a block within the current one covers.
  using Ranges = std::vector<Range>;

  /// Returns rows and columns of the packed blocks of a tensor for a member.
  std::pair<int64_t, int64_t> packed(size_t member, int tensor) const {
    const auto along = [&](int loop) {
      if (program_.within.empty() || program_.within[member].levels.empty()) return program_.tiles[loop];
      const NestedMember& nested = program_.within[member];
      return nested.levels.back().tiles[nested.chain.loopNamed(chain_.loops[loop].name)];
    };
    return {along(layouts_[tensor].row_loop), along(layouts_[tensor].column_loop)};
  }

  /// Touches the lines of these rows of the tensor's block within the current one.
  void touch(size_t member, int tensor, Range rows, const Ranges& ranges) {
    const Layout& layout = layouts_[tensor];
    const auto [high, wide] = packed(member, tensor);
    const Range columns = ranges[layout.column_loop];
    const int64_t row = layout.rows > 1 ? at_[layout.row_loop] : 0,
                  column = layout.columns > 1 ? at_[layout.column_loop] : 0;
    const int64_t bytes = elementBytes(chain_.accesses[tensor].dtype), pitch = columns.size() * bytes;
    const int64_t number = rows.from / high * ceilDiv(program_.tiles[layout.column_loop], wide) + columns.from / wide;
    const int64_t start =
        layout.first_line + (row * layout.columns + column) * layout.block_lines + number * lines(high * wide * bytes);
    const int64_t top = rows.from / high * high;
    const int64_t first = (rows.from - top) * pitch / program_.line_bytes, last = lines((rows.to - top) * pitch);
    cache_.touchRun(start + first, last - first);
    touched_ += last - first;
  }

  void block(const Statement& member) {
    Ranges ranges;
    for (size_t loop = 0; loop < chain_.loops.size(); ++loop) ranges.push_back({0, width(static_cast<int>(loop))});
    const auto number = static_cast<size_t>(&member - chain_.statements.data());
    cut(member, program_.within.empty() ? nullptr : &program_.within[number], 0, 0, ranges);
  }

  /// Runs the loops of the member's levels from `level` on.
  void cut(const Statement& member, const NestedMember* within, size_t level, size_t position, const Ranges& ranges) {
    if (within == nullptr || level == within->levels.size()) return panels(member, ranges);
    const LevelBlocks& blocks = within->levels[level];
    if (position == blocks.order.size()) return cut(member, within, level + 1, 0, ranges);
    const int own = blocks.order[position], loop = chain_.loopNamed(within->chain.loops[own].name);
    for (int64_t at = ranges[loop].from; at < ranges[loop].to; at += blocks.tiles[own]) {
      Ranges smaller = ranges;
      smaller[loop] = {at, std::min(at + blocks.tiles[own], ranges[loop].to)};
      cut(member, within, level, position + 1, smaller);
    }
  }

  void panels(const Statement& member, const Ranges& ranges) {
    const int first = member.inputs[0], second = member.inputs[1], output = member.output;
    const auto number = static_cast<size_t>(&member - chain_.statements.data());
    const Range rows = ranges[layouts_[output].row_loop];
    for (int64_t row = rows.from; row < rows.to; row += program_.panel_rows) {
      const Range panel = {row, std::min(rows.to, row + program_.panel_rows)};
      touch(number, first, panel, ranges);
      touch(number, second, ranges[layouts_[second].row_loop], ranges);
      touch(number, output, panel, ranges);
    }
  }

  const BlockProgram& program_;
  const Chain& chain_;
  CacheSimulator& cache_;
  Structure structure_;
  std::vector<int64_t> at_;
  std::vector<Layout> layouts_;
  int64_t touched_ = 0;
};

}  // namespace

int64_t trace(const BlockProgram& program, CacheSimulator& cache) { return Tracer(program, cache).run(); }

}  // namespace tessera::compiler::fusion
