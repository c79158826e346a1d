#include "compiler/fusion/testing/block_program.h"

#include <algorithm>

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/structure.h"

namespace tessera::compiler::fusion {
namespace {

class Tracer {
 public:
  Tracer(const BlockProgram& program, CacheSimulator& cache)
      : program_(program),
        chain_(program.chain),
        cache_(cache),
        structure_(chain_, program.order, Intermediates::kRetained),
        at_(chain_.loops.size(), 0) {
    int64_t line = 0;
    for (size_t t = 0; t < chain_.tensors.size(); ++t) {
      Layout layout;
      layout.first_line = line;
      layout.row_loop = chain_.tensors[t].subscripts[0][0].loop;
      layout.column_loop = chain_.tensors[t].subscripts[1][0].loop;
      layout.block_lines =
          lines(program.tiles[layout.row_loop] * program.tiles[layout.column_loop] * chain_.tensors[t].element_bytes);
      // An intermediate keeps one block, or all blocks along what is retained.
      auto kept = [&](int loop) {
        return !chain_.isIntermediate(static_cast<int>(t)) || (structure_.retained[t] >> loop & 1);
      };
      layout.rows = kept(layout.row_loop) ? blocks(layout.row_loop) : 1;
      layout.columns = kept(layout.column_loop) ? blocks(layout.column_loop) : 1;
      line += layout.rows * layout.columns * layout.block_lines;
      layouts_.push_back(layout);
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
    for (const Member& member : chain_.members) {
      bool now = true;
      for (size_t loop = 0; loop < chain_.loops.size(); ++loop) {
        if (std::ranges::count(member.loops, static_cast<int>(loop))) continue;
        // A loop of a later member: run before it starts; of an earlier one: after it is through.
        const bool earlier = std::ranges::any_of(chain_.members, [&](const Member& other) {
          return &other < &member && std::ranges::count(other.loops, static_cast<int>(loop));
        });
        now = now && at_[loop] == (earlier ? blocks(static_cast<int>(loop)) - 1 : 0);
      }
      if (now) block(member);
    }
  }

  /// Lines of rows [from, to) of the present block of a tensor.
  void touch(int tensor, int64_t from, int64_t to) {
    const Layout& layout = layouts_[tensor];
    const int64_t row = layout.rows > 1 ? at_[layout.row_loop] : 0,
                  column = layout.columns > 1 ? at_[layout.column_loop] : 0;
    const int64_t start = layout.first_line + (row * layout.columns + column) * layout.block_lines;
    const int64_t pitch = width(layout.column_loop) * chain_.tensors[tensor].element_bytes;
    const int64_t first = from * pitch / program_.line_bytes, last = lines(to * pitch);
    cache_.touchRun(start + first, last - first);
    touched_ += last - first;
  }

  void block(const Member& member) {
    const int first = member.inputs[0], second = member.inputs[1], output = member.output;
    const int64_t rows = width(layouts_[output].row_loop);
    for (int64_t row = 0; row < rows; row += program_.panel_rows) {
      const int64_t end = std::min(rows, row + program_.panel_rows);
      touch(first, row, end);
      touch(second, 0, width(layouts_[second].row_loop));
      touch(output, row, end);
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
