#include "compiler/ptx/write.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/ptx/body.h"
#include "proto/element_size.h"

namespace tessera::compiler::ptx {
namespace {

using Registers = std::vector<std::string>;

class Writer : Body {
 public:
  Writer(const Plan& plan, const v1::Target& target, std::string name)
      : plan_(plan), target_(target), name_(std::move(name)) {}

  std::string run() {
    indices();
    for (size_t s = 0; s < 2; ++s) prepareCopies(s);
    for (size_t s = 0; s < 2; ++s) prepareFetches(s);
    accumulators();
    pipeline();
    store();
    line("ret;");
    return absl::StrCat(".visible .entry ", name_, "(\n  .param .u64 ", name_, "_0,\n  .param .u64 ", name_,
                        "_1,\n  .param .u64 ", name_, "_2\n)\n.reqntid ", plan_.threads(), ", 1, 1\n{\n", declared(),
                        text(), "}\n");
  }

 private:
  void indices() {
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

  // --- copies ---

  struct Copies {
    std::string guard;        // threads that copy; empty: all
    Registers kept, within;   // per copy (or one for all): element's number by results' loops, whether there is one
    std::string row, column;  // of the first copy
    Registers to;             // in a stage
    int64_t rows_between = 0;
  } copies_[2];

  int64_t extentX(size_t s) const { return plan_.extentOf(s == 0 ? plan_.x : plan_.y); }
  const std::vector<Part>& partsOf(const Side& side, int subscript) const {
    return subscript == 0 ? side.addresses.first : side.addresses.second;
  }

  /// Address in a stage of a byte of a row, both in registers.
  std::string swizzled(const Side& side, const std::string& row, const std::string& byte) {
    const std::string begin = made("mul.lo.s32", row, side.swizzle.row_bytes);
    return made("add.s32", begin, exchanged(side, row, byte));
  }
  std::string exchanged(const Side& side, const std::string& row, const std::string& byte) {
    const Swizzle& swizzle = side.swizzle;
    if (swizzle.mask == 0) return byte;
    const std::string digit =
        made("and.b32", swizzle.shift == 0 ? row : made("shr.u32", row, swizzle.shift), swizzle.mask);
    return made("xor.b32", byte, made("shl.b32", digit, log2of(swizzle.chunk_bytes)));
  }

  void prepareCopies(size_t s) {
    const Side& side = plan_.sources[s];
    Copies& copies = copies_[s];
    const int64_t in_row = side.columns / side.vector, all = side.rows * in_row;
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
    const bool repeats = copies.rows_between % side.swizzle.period() == 0;
    for (int64_t n = 0; n < (repeats ? 1 : side.copies); ++n) {
      copies.to.push_back(
          plus(made("add.s32", shared_, swizzled(side, plus(copies.row, n * copies.rows_between), byte)), side.base));
    }
  }

  /// Copies of stage `number` (of the whole sum) to the stage that begins `offset` bytes behind the first.
  void copyStage(const std::string& number, const std::string& offset) {
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
          line(guard, asynchronous.assembly(), " ", to, ", [", from, "], ", bytes, ", ", read, ";");
        } else {
          const int64_t words = std::max<int64_t>(1, bytes / 4);
          Registers values;
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

  // --- fragments ---

  struct Fetches {
    std::string row, byte;                                      // of the thread, its group's included
    std::map<std::pair<int64_t, int64_t>, std::string> places;  // by what is added to row and byte
  } fetches_[2];

  /// What the matrices of one fetch, and the rows in them, add to the subscripts; per thread.
  void prepareFetches(size_t s) {
    const Side& side = plan_.sources[s];
    std::vector<int64_t> first, second;
    for (int t = 0; t < side.fragment.threads; ++t) {
      if (side.fetch) {
        const int matrix = t / side.fetch->rows() % side.matrices;
        const int slot = matrix % side.fragment.registers, block = matrix / side.fragment.registers;
        const auto rows = rowsOf(side.fragment, *side.fetch, slot, side.along, side.element_bytes);
        const auto& place = rows[static_cast<size_t>(t % side.fetch->rows())];
        const int64_t further = block * plan_.sizeOf(s == 0 ? plan_.x : plan_.y);
        first.push_back(place.first + (side.kept == 0 ? further : 0));
        second.push_back(place.second + (side.kept == 1 ? further : 0));
      } else {
        first.push_back(side.fragment.first[static_cast<size_t>(t)]);
        second.push_back(side.fragment.second[static_cast<size_t>(t)]);
      }
    }
    std::string parts[2] = {byThread(lane_, first), byThread(lane_, second)};
    const int64_t size = side.blocks * plan_.sizeOf(s == 0 ? plan_.x : plan_.y);
    parts[side.kept] = made("add.s32", parts[side.kept], made("mul.lo.s32", group_[s], size));
    fetches_[s].row = parts[1 - side.along];
    fetches_[s].byte = made("mul.lo.s32", parts[side.along], side.element_bytes);
  }

  /// "[register+bytes]" of the element that lies `kept` and `summed` behind the thread's own.
  std::string place(size_t s, const std::string& stage, int64_t kept, int64_t summed,
                    std::map<std::string, std::string>& in_stage) {
    const Side& side = plan_.sources[s];
    const bool rows_are_kept = side.along != side.kept;
    const int64_t row = rows_are_kept ? kept : summed, byte = (rows_are_kept ? summed : kept) * side.element_bytes;
    const bool repeats = row % side.swizzle.period() == 0;
    std::string& at = fetches_[s].places[{repeats ? 0 : row, byte}];
    if (at.empty()) {
      at = plus(swizzled(side, plus(fetches_[s].row, repeats ? 0 : row), plus(fetches_[s].byte, byte)), side.base);
    }
    std::string& there = in_stage[at];
    if (there.empty()) there = made("add.s32", stage, at);
    return absl::StrCat("[", there, "+", repeats ? row * side.swizzle.row_bytes : 0, "]");
  }
  std::string prefixOf(const std::string& type) const {
    return type == "f32" ? "f" : type == "f64" ? "d" : type.ends_with("64") ? "w" : "r";
  }

  Registers fetchAll(size_t s, int step, const std::string& stage, std::map<std::string, std::string>& in_stage) {
    const Side& side = plan_.sources[s];
    const int64_t size = plan_.sizeOf(s == 0 ? plan_.x : plan_.y), summed = step * plan_.sizeOf(plan_.r);
    const int registers = side.fragment.registers;
    Registers all;
    for (int r = 0; r < side.blocks * registers; ++r) all.push_back(fresh(prefixOf(side.fragment.type)));
    if (!side.fetch) {
      const auto& fragment = side.fragment;
      for (int r = 0; r < side.blocks * registers; ++r) {
        const auto slot = static_cast<size_t>(r % registers * fragment.in_register);
        const int64_t kept = r / registers * size + (side.kept == 0 ? fragment.first_of : fragment.second_of)[slot];
        const int64_t more = summed + (side.kept == 0 ? fragment.second_of : fragment.first_of)[slot];
        line("ld.shared.", fragment.type, " ", all[static_cast<size_t>(r)], ", ", place(s, stage, kept, more, in_stage),
             ";");
      }
      return all;
    }
    // Matrices of one block, or of whole blocks; the first of each gives the place.
    for (int r = 0; r < side.blocks * registers; r += side.matrices) {
      const int slot = r % registers;
      const auto here = rowsOf(side.fragment, *side.fetch, slot, side.along, side.element_bytes)[0];
      const auto own = rowsOf(side.fragment, *side.fetch, 0, side.along, side.element_bytes)[0];
      const int64_t first = here.first - own.first, second = here.second - own.second;
      const int64_t kept = r / registers * size + (side.kept == 0 ? first : second);
      const int64_t more = summed + (side.kept == 0 ? second : first);
      const Registers some(all.begin() + r, all.begin() + r + side.matrices);
      line(absl::StrReplaceAll(side.fetch->assembly(), {{"$", absl::StrCat(side.matrices)}}), " {",
           absl::StrJoin(some, ", "), "}, ", place(s, stage, kept, more, in_stage), ";");
    }
    return all;
  }

  void accumulators() {
    const std::string& type = plan_.result.type;
    for (int i = 0; i < plan_.sources[0].blocks * plan_.sources[1].blocks * plan_.result.registers; ++i) {
      sums_.push_back(fresh(prefixOf(type)));
      line("mov.", type == "s32" ? "b32" : type, " ", sums_.back(), ", ",
           type == "f32"   ? "0f00000000"
           : type == "f64" ? "0d0000000000000000"
                           : "0",
           ";");
    }
  }

  void multiplyStage(const std::string& stage) {
    std::map<std::string, std::string> in_stage;
    for (int step = 0; step < plan_.steps; ++step) {
      const Registers left = fetchAll(0, step, stage, in_stage), right = fetchAll(1, step, stage, in_stage);
      const auto some = [](const Registers& all, int64_t block, int count) {
        return absl::StrCat("{", absl::StrJoin(all.begin() + block * count, all.begin() + (block + 1) * count, ", "),
                            "}");
      };
      for (int x = 0; x < plan_.sources[0].blocks; ++x) {
        for (int y = 0; y < plan_.sources[1].blocks; ++y) {
          const std::string sums = some(sums_, x * plan_.sources[1].blocks + y, plan_.result.registers);
          line(plan_.intrinsic.threads().assembly(), " ", sums, ", ",
               some(left, x, plan_.sources[0].fragment.registers), ", ",
               some(right, y, plan_.sources[1].fragment.registers), ", ", sums, ";");
        }
      }
    }
  }

  void pipeline() {
    const auto& copy = target_.memory(plan_.level).filled_by();
    const bool asynchronous = plan_.sources[0].asynchronous || plan_.sources[1].asynchronous;
    const int64_t stages = plan_.summed_tiles * plan_.summed, ahead = plan_.stages - 1;
    const std::string bytes = absl::StrCat(plan_.stage_bytes);
    for (int64_t n = 0; n < ahead; ++n) {
      if (n < stages) {
        const std::string number = fresh("r"), offset = fresh("r");
        line("mov.b32 ", number, ", ", n, ";");
        line("mov.b32 ", offset, ", ", n * plan_.stage_bytes, ";");
        copyStage(number, offset);
      }
      if (asynchronous) line(copy.commit(), ";");
    }
    // Places are computed where every path passes: the first use is below, within the loop.
    const std::string before = takeText();
    std::map<std::string, std::string> ignored;
    std::string setup;
    for (size_t s = 0; s < 2; ++s) {
      for (int step = 0; step < plan_.steps; ++step) fetchAll(s, step, shared_, ignored);
    }
    // Of what that wrote, the places alone are kept.
    const std::string all = takeText();
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at) + 1;
      const std::string text = all.substr(at, end - at);
      if (text.find('[') == std::string::npos) setup += text;
      at = end;
    }
    addText(before + setup);
    const std::string stage = fresh("r"), filled = fresh("r"), offset = fresh("r"), more = fresh("p"),
                      wraps = fresh("p");
    line("mov.b32 ", stage, ", 0;");
    line("mov.b32 ", offset, ", 0;");
    line("mov.b32 ", filled, ", ", ahead * plan_.stage_bytes, ";");
    addText(absl::StrCat("STAGE_", name_, ":\n"));
    if (asynchronous) line(absl::StrReplaceAll(copy.wait(), {{"$", absl::StrCat(ahead - 1)}}), ";");
    line("bar.sync 0;");
    const std::string next = plus(stage, ahead);
    line("setp.ge.s32 ", more, ", ", next, ", ", stages, ";");
    line("@", more, " bra FILLED_", name_, ";");
    copyStage(next, filled);
    addText(absl::StrCat("FILLED_", name_, ":\n"));
    if (asynchronous) line(copy.commit(), ";");
    multiplyStage(made("add.s32", shared_, offset));
    for (const std::string& ring : {offset, filled}) {
      line("add.s32 ", ring, ", ", ring, ", ", bytes, ";");
      line("setp.eq.s32 ", wraps, ", ", ring, ", ", plan_.sharedBytes(), ";");
      line("selp.b32 ", ring, ", 0, ", ring, ", ", wraps, ";");
    }
    line("add.s32 ", stage, ", ", stage, ", 1;");
    line("setp.lt.s32 ", more, ", ", stage, ", ", stages, ";");
    line("@", more, " bra STAGE_", name_, ";");
  }

  // --- results ---

  struct Place {
    std::string element, within;
  };
  Place resultAt(const std::string& index, int64_t further, int64_t extent, const std::vector<Part>& parts) {
    const std::string at = plus(index, further);
    Place place{addressed("", at, parts), fresh("p")};
    line("setp.lt.s32 ", place.within, ", ", at, ", ", extent, ";");
    return place;
  }

  /// The elements of a register as the tensor has them, 16-bit ones in their own registers.
  Registers elementsOf(const std::string& sum) {
    const v1::DataType type = plan_.result_type;
    if (plan_.result.in_register == 2) {
      const Registers halves = {fresh("h"), fresh("h")};
      line("mov.b32 {", halves[0], ", ", halves[1], "}, ", sum, ";");
      return halves;
    }
    if (plan_.result.type == "f32" && type != v1::DATA_TYPE_F32) {
      const std::string half = fresh("h");
      line("cvt.rn.", type == v1::DATA_TYPE_F16 ? "f16" : "bf16", ".f32 ", half, ", ", sum, ";");
      return {half};
    }
    return {sum};
  }

  void store() {
    const Fragment& result = plan_.result;
    const int64_t bytes = elementBytes(plan_.result_type);
    std::string own[2] = {byThread(lane_, result.first), byThread(lane_, result.second)};
    for (size_t s = 0; s < 2; ++s) {
      const int64_t size = plan_.sources[s].blocks * plan_.sizeOf(s == 0 ? plan_.x : plan_.y);
      own[s] = made("add.s32", own[s], made("add.s32", first_[s], made("mul.lo.s32", group_[s], size)));
    }
    std::string constant = fresh("r");
    line("mov.b32 ", constant, ", ", plan_.to.constant, ";");
    constant = addressed(constant, kept_, plan_.to.kept);
    std::map<int64_t, Place> columns;
    for (int x = 0; x < plan_.sources[0].blocks; ++x) {
      std::map<int64_t, Place> rows;
      for (int y = 0; y < plan_.sources[1].blocks; ++y) {
        Registers elements;
        for (int r = 0; r < result.registers; ++r) {
          for (auto& element :
               elementsOf(sums_[static_cast<size_t>((x * plan_.sources[1].blocks + y) * result.registers + r)])) {
            elements.push_back(std::move(element));
          }
        }
        const auto vector = static_cast<size_t>(plan_.result_vector);
        for (size_t e = 0; e < elements.size(); e += vector) {
          const int64_t at_x = x * plan_.sizeOf(plan_.x) + result.first_of[e],
                        at_y = y * plan_.sizeOf(plan_.y) + result.second_of[e];
          if (!rows.contains(at_x)) rows[at_x] = resultAt(own[0], at_x, plan_.extentOf(plan_.x), plan_.to.first);
          if (!columns.contains(at_y)) columns[at_y] = resultAt(own[1], at_y, plan_.extentOf(plan_.y), plan_.to.second);
          const std::string within = fresh("p"), to = fresh("w");
          line("and.pred ", within, ", ", rows[at_x].within, ", ", columns[at_y].within, ";");
          std::string element = constant;
          for (const std::string& part : {rows[at_x].element, columns[at_y].element}) {
            if (!part.empty()) element = made("add.s32", element, part);
          }
          line("mad.wide.s32 ", to, ", ", element, ", ", bytes, ", ", tensors_[0], ";");
          const std::string type = bytes == 2 ? "b16" : bytes == 8 ? "f64" : plan_.result.type == "f32" ? "f32" : "b32";
          if (vector == 2) {
            line("@", within, " st.global.v2.", type, " [", to, "], {", elements[e], ", ", elements[e + 1], "};");
          } else {
            line("@", within, " st.global.", type, " [", to, "], ", elements[e], ";");
          }
        }
      }
    }
  }

  const Plan& plan_;
  const v1::Target& target_;
  const std::string name_;
  std::string tensors_[3], thread_, lane_, group_[2], first_[2], kept_, shared_;
  Registers sums_;
};

}  // namespace

std::string heading(const v1::Target& target) {
  std::string version = "7.0";
  for (const std::string& feature : target.code().features()) {
    if (feature.starts_with("ptx") && feature.size() > 4) {
      version = absl::StrCat(feature.substr(3, feature.size() - 4), ".", feature.substr(feature.size() - 1));
    }
  }
  return absl::StrCat(".version ", version, "\n.target ", target.code().cpu(),
                      "\n.address_size 64\n\n.extern .shared .align 128 .b8 shared_memory[];\n");
}

std::string write(const Plan& plan, const v1::Target& target, const std::string& name) {
  return Writer(plan, target, name).run();
}

}  // namespace tessera::compiler::ptx
