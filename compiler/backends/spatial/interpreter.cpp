#include "compiler/backends/spatial/interpreter.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/addressing.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/epilogue_blocks.h"
#include "compiler/backends/spatial/instruction.h"
#include "compiler/backends/spatial/walk.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

constexpr uint8_t kNobodyWrote = 0xff;  // NaN or -1

/// The current content of a buffer.
struct Content {
  int copy = -1;  // -1: nothing
  std::vector<int64_t> first, count;
};

class Execution : public Machine {
 public:
  Execution(const Program& program, Instruction& instruction, std::vector<bool>& begun)
      : program_(program), instruction_(instruction), begun_(begun), contents_(program.buffers.size()) {
    if (program.epilogue) epilogue_.emplace(*program.epilogue);
    const intrinsic::Form form = intrinsic::formOf(program.instruction);
    for (size_t operand = 0; operand < program.walks.size(); ++operand) {
      addressing_.emplace_back(program, operand);
      const v1::DataType type = program.instruction.accesses[operand].dtype;
      neutral_.emplace_back(static_cast<size_t>(elementBytes(type)));
      const double real = neutralReal(form);
      const int64_t whole = neutralInteger(form, type);
      isFloatingPoint(type) ? encode(type, &real, 1, neutral_.back().data())
                            : encode(type, &whole, 1, neutral_.back().data());
    }
  }

  absl::Status allocate(const TensorBytes& tensors) {
    std::vector<int64_t> sizes(program_.memories.size(), 0);
    for (const Buffer& buffer : program_.buffers) {
      sizes[buffer.memory] = std::max(sizes[buffer.memory], buffer.base + buffer.bytes * buffer.copies);
    }
    int64_t all = 0;
    // Bounded terms, so that the sum cannot overflow.
    for (int64_t size : sizes) all += std::min(size, kMaxBytes + 1);
    if (all > kMaxBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("its memories and tensors have more than ", kMaxBytes, " bytes; give smaller extents"));
    }
    for (int64_t size : sizes) bytes_.emplace_back(static_cast<size_t>(size), kNobodyWrote);
    if (tensors.size() != static_cast<size_t>(std::ranges::count(program_.buffers, true, &Buffer::tensor)))
      return absl::InvalidArgumentError(absl::StrCat(tensors.size(), " tensors are given"));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Buffer& tensor = program_.buffers[i];
      if (static_cast<int64_t>(tensors[i].size()) != tensor.bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(tensor.name, " has ", tensors[i].size(), " bytes, the program's ", tensor.bytes));
      }
      std::copy(tensors[i].begin(), tensors[i].end(), bytes_[tensor.memory].begin() + tensor.base);
    }
    return absl::OkStatus();
  }

  /// For the next unit: its memories are empty; tensors are kept.
  void forget() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      contents_[b] = {};
      if (buffer.tensor) continue;
      std::fill_n(bytes_[buffer.memory].begin() + buffer.base, buffer.bytes * buffer.copies, kNobodyWrote);
    }
  }

  void take(TensorBytes& tensors) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Buffer& tensor = program_.buffers[i];
      std::copy_n(bytes_[tensor.memory].begin() + tensor.base, tensor.bytes, tensors[i].begin());
    }
  }

  absl::Status fill(const Step& step, const Place& place) override {
    hold(step.to, place);
    return forEachBlock(step.operand, place, {0, blocksAt(program_, step.operand, place)},
                        [&](const std::vector<int64_t>& block, int64_t) -> absl::Status {
                          uint8_t* to = blockOf(step.to, block, 0);
                          if (!to) return outside(step, place, step.to);
                          for (int64_t offset : program_.buffers[step.to].offsets) put(to, offset, step.operand);
                          return absl::OkStatus();
                        });
  }

  absl::Status copy(const Step& step, const Place& place, const Piece& piece) override {
    const Buffer &from = program_.buffers[step.from], &to = program_.buffers[step.to];
    // A buffer that no step has filled.
    if (!from.tensor && contents_[step.from].copy < 0) return failure(step, place, "reads what nobody wrote");
    if (!to.tensor) hold(step.to, place);
    const Addressing& addressing = addressing_[step.operand];
    if (step.access >= 0) return copyForEpilogue(step, place, piece);
    const size_t bytes = neutral_[step.operand].size();
    return forEachBlock(
        step.operand, place, piece, [&](const std::vector<int64_t>& block, int64_t ordinal) -> absl::Status {
          uint8_t* source = from.tensor ? nullptr : blockOf(step.from, block, ordinal);
          uint8_t* target = to.tensor ? nullptr : blockOf(step.to, block, ordinal);
          if (!from.tensor && !source) return outside(step, place, step.from);
          if (!to.tensor && !target) return outside(step, place, step.to);
          if (source && target) {
            for (size_t i = 0; i < from.offsets.size(); ++i) {
              std::memcpy(target + to.offsets[i], source + from.offsets[i], bytes);
            }
            return absl::OkStatus();
          }
          const Buffer& tensor = from.tensor ? from : to;
          const auto element_bytes = static_cast<size_t>(elementBytes(tensor.dtype));
          uint8_t* elements = bytes_[tensor.memory].data() + tensor.base;
          bool astray = false;
          int64_t wrong = 0;  // the first invalid byte
          if (target) {
            // Padding first; elements of the tensor then replace it.
            for (int64_t offset : to.offsets) put(target, offset, step.operand);
          }
          addressing.forEachElement(block, [&](int64_t position, int64_t element) {
            const int64_t at = element * static_cast<int64_t>(element_bytes);
            if (at < 0 || at >= tensor.bytes) {
              if (!astray) wrong = at;
              astray = true;
            } else if (target) {
              std::memcpy(target + to.offsets[position], elements + at, bytes);
            } else if (from.dtype == to.dtype) {
              std::memcpy(elements + at, source + from.offsets[position], bytes);
            } else {
              double number = 0;
              decode(from.dtype, source + from.offsets[position], 1, &number);
              number = rounded(number, to.dtype);
              encode(to.dtype, &number, 1, elements + at);
            }
          });
          if (!astray) return absl::OkStatus();
          return failure(step, place,
                         absl::StrCat("byte ", wrong, " of tensor ", tensor.name, ", which has ", tensor.bytes));
        });
  }

  absl::Status call(const Step& step, const Place& place) override {
    std::vector<int> sums, kept;
    std::vector<int64_t> sum_counts, kept_counts;
    bool begins = true;
    for (size_t d = 0; d < program_.dimensions.size(); ++d) {
      const bool sum = program_.dimensions[d].sum;
      (sum ? sums : kept).push_back(static_cast<int>(d));
      (sum ? sum_counts : kept_counts).push_back(place.count[d]);
      begins = begins && (!sum || place.first[d] == 0);
    }
    for (size_t operand = 0; operand < program_.operands.size(); ++operand) {
      if (contents_[program_.operands[operand]].copy < 0) return failure(step, place, "reads what nobody wrote");
    }
    std::vector<int64_t> block(program_.dimensions.size());
    std::vector<uint8_t*> blocks(program_.operands.size());
    absl::Status status;
    intrinsic::forEachPoint(sum_counts, [&](const std::vector<int64_t>& part) {
      for (size_t i = 0; i < sums.size(); ++i) block[sums[i]] = place.first[sums[i]] + part[i];
      // The first product of a sum marks its result as begun, so that missing results are noticed.
      const bool first = begins && std::all_of(part.begin(), part.end(), [](int64_t index) { return index == 0; });
      intrinsic::forEachPoint(kept_counts, [&](const std::vector<int64_t>& result) {
        if (!status.ok()) return;
        for (size_t i = 0; i < kept.size(); ++i) block[kept[i]] = place.first[kept[i]] + result[i];
        for (size_t operand = 0; operand < blocks.size(); ++operand) {
          blocks[operand] = blockOf(program_.operands[operand], block, 0);
          if (!blocks[operand]) status = outside(step, place, program_.operands[operand]);
        }
        if (!status.ok()) return;
        instruction_(blocks);
        if (!first) return;
        addressing_[0].forEachElement(block, [&](int64_t, int64_t element) {
          if (element >= 0 && element < static_cast<int64_t>(begun_.size())) begun_[element] = true;
        });
      });
    });
    return status;
  }

  absl::Status runVector(const Step& step, const Place& place, const Piece& piece) override {
    const Epilogue& epilogue = *program_.epilogue;
    for (const int tile : epilogue.tiles)
      if (tile >= 0 && tile != step.to && contents_[tile].copy < 0)
        return failure(step, place, "reads what nobody wrote");
    if (contents_[step.from].copy < 0) return failure(step, place, "reads what nobody wrote");
    hold(step.to, place);
    const Buffer& results = program_.buffers[step.from];
    return forEachBlock(0, place, piece, [&](const std::vector<int64_t>& block, int64_t ordinal) -> absl::Status {
      const uint8_t* from = blockOf(step.from, block, ordinal);
      if (!from) return outside(step, place, step.from);
      std::vector<uint8_t*> blocks(epilogue.tiles.size(), nullptr);
      for (size_t a = 0; a < blocks.size(); ++a) {
        if (epilogue.tiles[a] < 0) continue;
        blocks[a] = blockOf(epilogue.tiles[a], block, ordinal);
        if (!blocks[a]) return outside(step, place, epilogue.tiles[a]);
      }
      epilogue_->begin(results.dtype, from, blocks);
      absl::Status status;
      addressing_[0].forEachElement(block, [&](int64_t position, int64_t element) {
        if (status.ok()) status = epilogue_->add(results.offsets[static_cast<size_t>(position)], position, element);
      });
      if (!status.ok()) return status;
      return epilogue_->end();
    });
  }

 private:
  /// Loads blocks of another operand of the epilogue, or stores blocks of its output.
  absl::Status copyForEpilogue(const Step& step, const Place& place, const Piece& piece) {
    const bool loads = program_.buffers[step.from].tensor;
    const Buffer &tensor = program_.buffers[loads ? step.from : step.to],
                 &held = program_.buffers[loads ? step.to : step.from];
    uint8_t* elements = bytes_[tensor.memory].data() + tensor.base;
    const int64_t bytes = elementBytes(tensor.dtype);
    return forEachBlock(0, place, piece, [&](const std::vector<int64_t>& block, int64_t ordinal) -> absl::Status {
      uint8_t* blocks = blockOf(loads ? step.to : step.from, block, ordinal);
      if (!blocks) return outside(step, place, loads ? step.to : step.from);
      int64_t wrong = -1;
      addressing_[0].forEachElement(block, [&](int64_t position, int64_t result) {
        const int64_t at = epilogue_->elementOf(static_cast<size_t>(step.access), result) * bytes;
        if (at < 0 || at >= tensor.bytes) {
          wrong = std::max<int64_t>(wrong, at < 0 ? 0 : at);
          return;
        }
        uint8_t* inside = blocks + held.offsets[static_cast<size_t>(position)];
        std::memcpy(loads ? inside : elements + at, loads ? elements + at : inside, static_cast<size_t>(bytes));
      });
      if (wrong < 0) return absl::OkStatus();
      return failure(step, place, absl::StrCat("byte ", wrong, " of tensor ", tensor.name, " of ", tensor.bytes));
    });
  }

  /// Advances the buffer to its next copy, which will hold the tile of this position.
  void hold(int buffer, const Place& place) {
    Content& content = contents_[buffer];
    content.copy = (content.copy + 1) % program_.buffers[buffer].copies;
    content.first = place.first;
    content.count = place.count;
  }

  void put(uint8_t* block, int64_t offset, int operand) const {
    std::memcpy(block + offset, neutral_[operand].data(), neutral_[operand].size());
  }

  template <typename Use>
  absl::Status forEachBlock(int operand, const Place& place, const Piece& piece, Use&& use) const {
    const std::vector<int>& walks = program_.walks[operand];
    std::vector<int64_t> block = place.first;
    for (int64_t at = piece.first; at < piece.first + piece.count; ++at) {
      int64_t rest = at;
      // The number of a block in the tile, taken apart with the last dimension fastest.
      for (size_t i = walks.size(); i-- > 0;) {
        block[walks[i]] = place.first[walks[i]] + rest % place.count[walks[i]];
        rest /= place.count[walks[i]];
      }
      TESSERA_RETURN_IF_ERROR(use(block, at - piece.first));
    }
    return absl::OkStatus();
  }

  /// Address of a block in the buffer's current copy; null if the block is not in the tile, or not in the memory.
  uint8_t* blockOf(int index, const std::vector<int64_t>& block, int64_t ordinal) {
    const Buffer& buffer = program_.buffers[index];
    const Content& content = contents_[index];
    int64_t at = 0;
    if (buffer.piece > 0) {
      at = ordinal;
    } else {
      for (int d : program_.walks[buffer.operand]) {
        const int64_t inside = block[d] - content.first[d];
        // The block is not in the tile that the buffer holds.
        if (inside < 0 || inside >= content.count[d] || inside >= buffer.tile[d]) return nullptr;
        at = at * buffer.tile[d] + inside;
      }
    }
    const int64_t offset = at * buffer.block_bytes;
    if (offset < 0 || offset + buffer.block_bytes > buffer.bytes) return nullptr;
    const int64_t address = buffer.base + content.copy * buffer.bytes + offset;
    const Memory& memory = program_.memories[buffer.memory];
    const int64_t end = memory.capacity < 0 ? static_cast<int64_t>(bytes_[buffer.memory].size()) : memory.capacity;
    if (address < 0 || address + buffer.block_bytes > end || address % memory.alignment != 0) return nullptr;
    return bytes_[buffer.memory].data() + address;
  }

  absl::Status failure(const Step& step, const Place& place, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(pathOf(program_, step, place), ": ", what));
  }

  absl::Status outside(const Step& step, const Place& place, int index) const {
    const Buffer& buffer = program_.buffers[index];
    const Memory& memory = program_.memories[buffer.memory];
    return failure(step, place,
                   absl::StrCat("a block that is not in ", memory.name, ".", buffer.name, " at ", buffer.base, ", ",
                                buffer.copies, " of ", buffer.bytes, " bytes, aligned to ", memory.alignment));
  }

  const Program& program_;
  Instruction& instruction_;
  std::vector<bool>& begun_;
  std::vector<Content> contents_;
  std::vector<Addressing> addressing_;  // per operand
  std::optional<EpilogueBlocks> epilogue_;
  std::vector<std::vector<uint8_t>> neutral_;  // the neutral element of each operand
  std::vector<std::vector<uint8_t>> bytes_;    // per memory: those of one unit, and the tensors
};

}  // namespace

absl::StatusOr<std::vector<bool>> execute(const Program& program, TensorBytes& tensors,
                                          const std::function<bool(size_t, int64_t)>& only) {
  TESSERA_RETURN_IF_ERROR(checkBuffers(program));
  TESSERA_ASSIGN_OR_RETURN(auto instruction, instructionOf(program.choice.intrinsic, program.instruction));
  std::vector<bool> begun(tensors[0].size() / static_cast<size_t>(elementBytes(program.buffers[0].dtype)), false);
  Execution execution(program, *instruction, begun);
  TESSERA_RETURN_IF_ERROR(execution.allocate(tensors));
  const int64_t tasks = tasksOf(program);
  for (int64_t unit = 0; unit < std::min(program.units, tasks); ++unit) {
    execution.forget();
    TESSERA_RETURN_IF_ERROR(walk(program, unit, execution, only));
  }
  execution.take(tensors);
  return begun;
}

}  // namespace tessera::compiler::simulator
