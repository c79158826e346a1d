#include "compiler/backends/ptx/write.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/ptx/result_writer.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::ptx {
namespace {

class Writer : ResultWriter {
 public:
  using ResultWriter::ResultWriter;

  std::string run() {
    indices();
    for (size_t s = 0; s < 2; ++s) prepareCopies(s);
    for (size_t s = 0; s < 2; ++s) plan_.readsShared() ? prepareDescriptors(s) : prepareFetches(s);
    accumulators();
    plan_.readsShared() ? pipelineInPlace() : pipeline();
    store();
    line("ret;");
    std::vector<std::string> parameters;
    for (size_t i = 0; i < 3 + added(); ++i) parameters.push_back(absl::StrCat("  .param .u64 ", name_, "_", i));
    return absl::StrCat(".visible .entry ", name_, "(\n", absl::StrJoin(parameters, ",\n"), "\n)\n.reqntid ",
                        plan_.threads(), ", 1, 1\n{\n", declared(), text(), "}\n");
  }

 private:
  // --- loads of fragments ---

  struct Fetches {
    std::string row, byte;                                      // of the thread, including its group's offset
    std::map<std::pair<int64_t, int64_t>, std::string> places;  // by the offsets added to row and byte
  } fetches_[2];

  /// Per thread: the offsets of the matrices of one load, and of the rows in them.
  void prepareFetches(size_t s) {
    const Side& side = plan_.sources[s];
    std::vector<int64_t> first, second;
    for (int t = 0; t < (side.fragment.opaque() ? 0 : side.fragment.threads); ++t) {
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

  /// "[register+bytes]": address of the element `kept` and `summed` after the thread's own.
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

  static std::string listed(const Registers& all, int64_t block, int count) {
    return absl::StrCat("{", absl::StrJoin(all.begin() + block * count, all.begin() + (block + 1) * count, ", "), "}");
  }
  /// The instruction's name, which may state the layout of a source: rows of its second subscript, or columns.
  std::string productName() const {
    std::string name = plan_.intrinsic.threads().assembly();
    for (const Side& side : plan_.sources) {
      const std::string& operand = plan_.instruction.accesses[static_cast<size_t>(side.operand)].name;
      name = absl::StrReplaceAll(name, {{absl::StrCat("$", operand), side.along == 1 ? "row" : "col"}});
    }
    return name;
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
    if (side.fragment.opaque()) {
      for (int block = 0; block < side.blocks; ++block) {
        line(side.fetch->assembly(), " ", listed(all, block, registers), ", ",
             place(s, stage, block * size, summed, in_stage), ", ", side.swizzle.row_bytes / side.element_bytes, ";");
      }
      return all;
    }
    // Matrices of one block, or of several whole blocks; the first one determines the address.
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
      for (int x = 0; x < plan_.sources[0].blocks; ++x) {
        for (int y = 0; y < plan_.sources[1].blocks; ++y) {
          const std::string sums = listed(sums_, x * plan_.sources[1].blocks + y, plan_.result.registers);
          line(product_, " ", sums, ", ", listed(left, x, plan_.sources[0].fragment.registers), ", ",
               listed(right, y, plan_.sources[1].fragment.registers), ", ", sums, ";");
        }
      }
    }
  }

  // --- stages ---

  int64_t stageCount() const { return plan_.summed_tiles * plan_.summed; }
  const auto& copyWay() const { return target_.memory(plan_.level).filled_by(); }
  bool copiesGoOn() const { return plan_.sources[0].asynchronous || plan_.sources[1].asynchronous; }
  void commitCopies() {
    if (copiesGoOn()) line(copyWay().commit(), ";");
  }

  /// Starts the copies of the stages that are in flight before the first one is multiplied.
  void fillStages() {
    for (int64_t n = 0; n < plan_.ahead(); ++n) {
      if (n < stageCount()) {
        const std::string number = fresh("r"), offset = fresh("r");
        line("mov.b32 ", number, ", ", n, ";");
        line("mov.b32 ", offset, ", ", n * plan_.stage_bytes, ";");
        copyStage(number, offset);
      }
      commitCopies();
    }
  }
  /// Advances to the next stage of the ring buffer.
  void startAsyncProduct(const std::string& ring, const std::string& wraps) {
    line("add.s32 ", ring, ", ", ring, ", ", plan_.stage_bytes, ";");
    line("setp.eq.s32 ", wraps, ", ", ring, ", ", plan_.ringBytes(), ";");
    line("selp.b32 ", ring, ", 0, ", ring, ", ", wraps, ";");
  }
  /// Registers of the loop over stages: the stage being multiplied, the addresses of it and of the stage being filled,
  /// and two predicates.
  struct Stages {
    std::string stage, filled, offset, more, wraps;
  };
  /// Writes the beginning of the loop over stages: it waits until the copies of its stage have arrived.
  Stages enterStages() {
    const Stages loop = {fresh("r"), fresh("r"), fresh("r"), fresh("p"), fresh("p")};
    line("mov.b32 ", loop.stage, ", 0;");
    line("mov.b32 ", loop.offset, ", 0;");
    line("mov.b32 ", loop.filled, ", ", plan_.ahead() * plan_.stage_bytes, ";");
    addText(absl::StrCat("STAGE_", name_, ":\n"));
    if (copiesGoOn()) line(absl::StrReplaceAll(copyWay().wait(), {{"$", absl::StrCat(plan_.ahead() - 1)}}), ";");
    return loop;
  }
  /// Starts the copies of the stage plan_.ahead() ahead, if there is one.
  void copyAhead(const Stages& loop) {
    const std::string next = plus(loop.stage, plan_.ahead());
    line("setp.ge.s32 ", loop.more, ", ", next, ", ", stageCount(), ";");
    line("@", loop.more, " bra FILLED_", name_, ";");
    copyStage(next, loop.filled);
    addText(absl::StrCat("FILLED_", name_, ":\n"));
    commitCopies();
  }
  void nextStage(const Stages& loop) {
    for (const std::string& ring : {loop.offset, loop.filled}) startAsyncProduct(ring, loop.wraps);
    line("add.s32 ", loop.stage, ", ", loop.stage, ", 1;");
    line("setp.lt.s32 ", loop.more, ", ", loop.stage, ", ", stageCount(), ";");
    line("@", loop.more, " bra STAGE_", name_, ";");
  }

  // --- sources that the instruction reads from shared memory ---

  /// Unit in bytes of the distances in a descriptor (PTX manual): to the next group of rows, and to the next panel.
  static constexpr int64_t kUnit = 16;
  static constexpr int kFurtherBit = 16;                        // in the low word: distance to the next panel
  static constexpr int64_t kExchangedBy128 = int64_t{1} << 30;  // in the high word

  /// Byte offset of an element within a stage's source.
  int64_t bytesTo(size_t s, int64_t kept, int64_t summed) const {
    const Side& side = plan_.sources[s];
    const bool rows_are_kept = side.along != side.kept;
    const int64_t row = rows_are_kept ? kept : summed, byte = (rows_are_kept ? summed : kept) * side.element_bytes;
    const int64_t width = side.swizzle.row_bytes;
    return byte / width * side.panelBytes() + row * width + byte % width;
  }

  void prepareDescriptors(size_t s) {
    const Side& side = plan_.sources[s];
    const int64_t group = bytesTo(s, side.blocks * plan_.sizeOf(s == 0 ? plan_.x : plan_.y), 0);
    const std::string own = made("add.s32", shared_, made("mul.lo.s32", group_[s], group));
    starts_[s] = plus(made("shr.u32", plus(own, side.base), log2of(kUnit)), side.panelBytes() / kUnit << kFurtherBit);
    if (s > 0) return;
    added_ = fresh("p");
    line("setp.eq.s32 ", added_, ", ", shared_, ", ", shared_, ";");
  }

  /// The products of a stage, as one asynchronous group.
  void multiplyInPlace(const std::string& offset) {
    const auto& threads = plan_.intrinsic.threads();
    const std::string units = made("shr.u32", offset, log2of(kUnit));
    std::map<std::pair<size_t, int64_t>, std::string> made_already;
    const auto descriptor = [&](size_t s, int block, int step) {
      const Side& side = plan_.sources[s];
      const int64_t at = bytesTo(s, block * plan_.sizeOf(s == 0 ? plan_.x : plan_.y), step * plan_.sizeOf(plan_.r));
      std::string& there = made_already[{s, at}];
      if (!there.empty()) return there;
      there = fresh("w");
      const std::string low = plus(made("add.s32", starts_[s], units), at / kUnit);
      const std::string high = fresh("r");
      line("mov.b32 ", high, ", ", kExchangedBy128 + side.swizzle.period() * side.swizzle.row_bytes / kUnit, ";");
      line("mov.b64 ", there, ", {", low, ", ", high, "};");
      return there;
    };
    std::string modifiers;
    for (const std::string& modifier : threads.modifiers()) absl::StrAppend(&modifiers, ", ", modifier);
    for (const Side& side : plan_.sources) {
      if (!side.descriptor->modifier().empty()) absl::StrAppend(&modifiers, ", ", side.descriptor->modifier());
    }
    line(threads.asynchronous().begin(), ";");
    for (int step = 0; step < plan_.steps; ++step) {
      for (int x = 0; x < plan_.sources[0].blocks; ++x) {
        for (int y = 0; y < plan_.sources[1].blocks; ++y) {
          const std::string left = descriptor(0, x, step), right = descriptor(1, y, step);
          const auto begin = sums_.begin() + (x * plan_.sources[1].blocks + y) * plan_.result.registers;
          line(threads.assembly(), " {", absl::StrJoin(begin, begin + plan_.result.registers, ", "), "}, ", left, ", ",
               right, ", ", added_, modifiers, ";");
        }
      }
    }
    line(threads.asynchronous().commit(), ";");
  }

  /// While a stage is multiplied, the product of the stage before may still be running, and copies fill the stage
  /// before that one: every group has waited for its product when it reaches the barrier.
  void pipelineInPlace() {
    const auto& going = plan_.intrinsic.threads().asynchronous();
    fillStages();
    const Stages stages = enterStages();
    line(going.publish(), ";");
    line("bar.sync 0;");
    multiplyInPlace(stages.offset);
    copyAhead(stages);
    line(absl::StrReplaceAll(going.wait(), {{"$", "1"}}), ";");
    nextStage(stages);
    line(absl::StrReplaceAll(going.wait(), {{"$", "0"}}), ";");
  }

  void pipeline() {
    fillStages();
    // Addresses are computed where every path passes, since their first use is inside the loop.
    const std::string before = takeText();
    std::map<std::string, std::string> ignored;
    std::string setup;
    for (size_t s = 0; s < 2; ++s) {
      for (int step = 0; step < plan_.steps; ++step) fetchAll(s, step, shared_, ignored);
    }
    // Keeps only the address computations of the text just written.
    const std::string all = takeText();
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at) + 1;
      const std::string text = all.substr(at, end - at);
      if (text.find('[') == std::string::npos) setup += text;
      at = end;
    }
    addText(before + setup);
    const Stages stages = enterStages();
    line("bar.sync 0;");
    copyAhead(stages);
    multiplyStage(made("add.s32", shared_, stages.offset));
    nextStage(stages);
  }

  const std::string product_ = productName();
  // for sources read in place: the low words of their descriptors; added_: a predicate that is true
  std::string starts_[2], added_;
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
                      "\n.address_size 64\n\n.extern .shared .align 1024 .b8 shared_memory[];\n");
}

std::string write(const Plan& plan, const v1::Target& target, const std::string& name) {
  return Writer(plan, target, name).run();
}

}  // namespace tessera::compiler::ptx
