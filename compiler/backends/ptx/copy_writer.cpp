#include "compiler/backends/ptx/copy_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tessera::compiler::ptx {

// Loads the tensors' addresses and decomposes thread and block number: lane in group, group in x and y, tile in x and
// y, then the outer parallel loops.
void CopyWriter::indices() {
  for (int i = 0; i < 3; ++i) {
    tensors_[i] = fresh("w");
    line("ld.param.u64 ", tensors_[i], ", [", name_, "_", i, "];");
    line("cvta.to.global.u64 ", tensors_[i], ", ", tensors_[i], ";");
  }
  thread_ = fresh("r");
  line("mov.u32 ", thread_, ", %tid.x;");
  const int64_t threads = plan_.intrinsic.threads().threads();
  lane_ = made("and.b32", thread_, threads - 1);
  const std::string group = made("shr.u32", thread_, log2of(threads));
  group_[0] = made("and.b32", group, plan_.groups_x - 1);
  group_[1] = made("shr.u32", group, log2of(plan_.groups_x));
  const std::string block = fresh("r");
  line("mov.u32 ", block, ", %ctaid.x;");
  const std::string above = divided(block, plan_.tiles_x);
  const std::string tile_x = plan_.tiles_x == 1 ? zero() : rest(block, above, plan_.tiles_x);
  kept_ = divided(above, plan_.tiles_y);
  const std::string tile_y = plan_.tiles_y == 1 ? zero() : rest(above, kept_, plan_.tiles_y);
  first_[0] = made("mul.lo.s32", tile_x, plan_.tileX());
  first_[1] = made("mul.lo.s32", tile_y, plan_.tileY());
  shared_ = fresh("r");
  line("mov.u32 ", shared_, ", shared_memory;");
}

std::string CopyWriter::swizzled(const Side& side, const std::string& row, const std::string& byte) {
  const std::string begin = made("mul.lo.s32", row, side.swizzle.row_bytes);
  if (side.columns * side.element_bytes <= side.swizzle.row_bytes)
    return made("add.s32", begin, exchanged(side, row, byte));
  // Rows longer than a swizzle's row are stored as several panels.
  const std::string panel = made("shr.u32", byte, log2of(side.swizzle.row_bytes));
  const std::string within = made("and.b32", byte, side.swizzle.row_bytes - 1);
  return made("add.s32", made("add.s32", begin, made("mul.lo.s32", panel, side.panelBytes())),
              exchanged(side, row, within));
}

std::string CopyWriter::exchanged(const Side& side, const std::string& row, const std::string& byte) {
  const Swizzle& swizzle = side.swizzle;
  if (swizzle.mask == 0) return byte;
  const std::string digit =
      made("and.b32", swizzle.shift == 0 ? row : made("shr.u32", row, swizzle.shift), swizzle.mask);
  return made("xor.b32", byte, made("shl.b32", digit, log2of(swizzle.chunk_bytes)));
}

void CopyWriter::prepareCopies(size_t s) {
  const Side& side = plan_.sources[s];
  Copies& copies = copies_[s];
  const int64_t in_row = side.columns / side.vector, all = side.rows * in_row;
  // Fewer copies than threads: the others are masked.
  if (all < plan_.threads()) {
    copies.guard = fresh("p");
    line("setp.lt.u32 ", copies.guard, ", ", thread_, ", ", all, ";");
  }
  copies.row = made("shr.u32", thread_, log2of(in_row));
  copies.column = made("shl.b32", made("and.b32", thread_, in_row - 1), log2of(side.vector));
  copies.rows_between = plan_.threads() / in_row;
  std::string constant = fresh("r");
  line("mov.b32 ", constant, ", ", side.addresses.constant, ";");
  constant = addressed(constant, kept_, side.addresses.kept);
  const bool rows_are_kept = side.along != side.kept;
  for (int64_t n = 0; n < (rows_are_kept ? side.copies : 1); ++n) {
    const std::string index =
        made("add.s32", first_[s], rows_are_kept ? plus(copies.row, n * copies.rows_between) : copies.column);
    copies.within.push_back(fresh("p"));
    line("setp.lt.s32 ", copies.within.back(), ", ", index, ", ", extentX(s), ";");
    if (!copies.guard.empty())
      line("and.pred ", copies.within.back(), ", ", copies.within.back(), ", ", copies.guard, ";");
    copies.kept.push_back(addressed(constant, index, partsOf(side, side.kept)));
  }
  const std::string byte = made("mul.lo.s32", copies.column, side.element_bytes);
  // If a thread's rows are whole periods apart, all of them have the same permutation, and one address with constant
  // offsets is enough.
  const bool repeats = copies.rows_between % side.swizzle.period() == 0;
  for (int64_t n = 0; n < (repeats ? 1 : side.copies); ++n) {
    copies.to.push_back(
        plus(made("add.s32", shared_, swizzled(side, plus(copies.row, n * copies.rows_between), byte)), side.base));
  }
}

void CopyWriter::copyStage(const std::string& number, const std::string& offset) {
  const std::string outside = divided(number, plan_.summed_tiles);
  const std::string tile = plan_.summed == 1         ? number
                           : plan_.summed_tiles == 1 ? zero()
                                                     : rest(number, outside, plan_.summed_tiles);
  const std::string begin = made("mul.lo.s32", tile, plan_.tileR());
  const auto& asynchronous = target_.memory(plan_.level).filled_by();
  for (size_t s = 0; s < 2; ++s) {
    const Side& side = plan_.sources[s];
    const Copies& copies = copies_[s];
    const bool rows_are_kept = side.along != side.kept;
    const int summed = 1 - side.kept;
    const std::string outer = plan_.summed == 1 ? "" : addressed("", outside, side.addresses.summed);
    std::string added, within;
    for (int64_t n = 0; n < side.copies; ++n) {
      if (!rows_are_kept || n == 0) {
        const std::string index =
            made("add.s32", begin, rows_are_kept ? copies.column : plus(copies.row, n * copies.rows_between));
        within = fresh("p");
        line("setp.lt.s32 ", within, ", ", index, ", ", plan_.extentOf(plan_.r), ";");
        added = addressed(outer, index, partsOf(side, summed));
      }
      const std::string there = fresh("p");
      line("and.pred ", there, ", ", within, ", ", copies.within[rows_are_kept ? n : 0], ";");
      const std::string& kept = copies.kept[rows_are_kept ? n : 0];
      const std::string element = fresh("r"), from = fresh("w");
      // Outside of the operator: reads element 0, which exists, and the copy writes zeros.
      line("selp.b32 ", element, ", ", added.empty() ? kept : made("add.s32", kept, added), ", 0, ", there, ";");
      line("mad.wide.s32 ", from, ", ", element, ", ", side.element_bytes, ", ", tensors_[side.array], ";");
      const bool repeats = copies.to.size() == 1;
      const int64_t immediate = repeats ? n * copies.rows_between * side.swizzle.row_bytes : 0;
      const std::string to =
          absl::StrCat("[", made("add.s32", copies.to[repeats ? 0 : n], offset), "+", immediate, "]");
      const int64_t bytes = side.vector * side.element_bytes;
      const std::string guard = copies.guard.empty() ? "" : absl::StrCat("@", copies.guard, " ");
      if (side.asynchronous) {
        const std::string read = fresh("r");
        line("selp.b32 ", read, ", ", bytes, ", 0, ", there, ";");
        // The widest copies may bypass the first-level cache.
        const std::vector<std::string> names = absl::StrSplit(asynchronous.assembly(), ' ');
        const bool widest = bytes == *std::max_element(asynchronous.bytes().begin(), asynchronous.bytes().end());
        line(guard, widest ? names.back() : names.front(), " ", to, ", [", from, "], ", bytes, ", ", read, ";");
      } else {
        const int64_t words = std::max<int64_t>(1, bytes / 4);
        Registers values;
        // Registers start as zeros and the load is predicated, so that elements outside of the operator are zeros.
        for (int64_t w = 0; w < words; ++w) values.push_back(zero());
        const std::string type = bytes == 1 ? "u8" : bytes == 2 ? "u16" : "b32";
        const std::string wide = words == 1 ? "" : absl::StrCat("v", words, ".");
        const std::string list = words == 1 ? values[0] : absl::StrCat("{", absl::StrJoin(values, ", "), "}");
        line("@", there, " ld.global.", wide, type, " ", list, ", [", from, "];");
        line(guard, "st.shared.", wide, type, " ", to, ", ", list, ";");
      }
    }
  }
}

}  // namespace tessera::compiler::ptx
