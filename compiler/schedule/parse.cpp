#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Deepest accepted nesting: hostile text must not exhaust the stack of code that walks the tree.
constexpr int kMaxDepth = 16;
constexpr size_t kMaxBytes = size_t{16} << 20;

/// The words of one line, consumed one by one.
class Line {
 public:
  Line(int number, absl::string_view text) : number_(number) {
    // The rest of the line is a comment.
    const size_t end = text.find('#');
    if (end != absl::string_view::npos) text = text.substr(0, end);
    while (indent_ < text.size() && text[indent_] == ' ') ++indent_;
    for (size_t at = indent_; at < text.size();) {
      if (text[at] == ' ' || text[at] == '\r') {
        ++at;
      } else if (text[at] == '[' || text[at] == ']') {
        words_.push_back({text.substr(at, 1), at});
        ++at;
      } else {
        const size_t stop = std::min(text.find_first_of(" []\r", at), text.size());
        words_.push_back({text.substr(at, stop - at), at});
        at = stop;
      }
    }
    length_ = text.size();
  }

  bool empty() const { return words_.empty(); }
  size_t indent() const { return indent_; }
  bool done() const { return next_ == words_.size(); }
  absl::string_view peek() const { return done() ? absl::string_view() : words_[next_].text; }
  absl::string_view take() { return done() ? absl::string_view() : words_[next_++].text; }
  bool take(absl::string_view word) {
    if (peek() != word) return false;
    ++next_;
    return true;
  }

  /// An error about the word that take() returned last.
  absl::Status fault(const std::string& message, const std::string& accepted) const {
    const Word at = next_ > 0 ? words_[next_ - 1] : Word{"", length_};
    return refuse(at.text, at.column, message, accepted);
  }
  /// An error about the next word, or the end of the line.
  absl::Status faultAhead(const std::string& message, const std::string& accepted) const {
    const Word at = done() ? Word{"end of line", length_} : words_[next_];
    return refuse(at.text, at.column, message, accepted);
  }

 private:
  struct Word {
    absl::string_view text;
    size_t column;
  };
  absl::Status refuse(absl::string_view found, size_t column, const std::string& message,
                      const std::string& accepted) const {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_SCHEDULE);
    failure.set_message(absl::StrCat("schedule, line ", number_, ", column ", column + 1, ": ", message, ": found \"",
                                     found, "\", accepted: ", accepted));
    failure.set_found(std::string(found));
    failure.set_accepted(accepted);
    return failureStatus(failure);
  }

  int number_;
  size_t indent_ = 0, length_ = 0, next_ = 0;
  std::vector<Word> words_;
};

template <typename Integer>
absl::Status readNumber(Line& line, absl::string_view word, Integer& value) {
  if (!absl::SimpleAtoi(word, &value)) return line.fault("no number", "a whole number");
  return absl::OkStatus();
}

template <typename Integer>
absl::Status takeNumber(Line& line, Integer& value) {
  if (line.done()) return line.faultAhead("a number is missing", "a whole number");
  return readNumber(line, line.take(), value);
}

/// Splits the next word at `separator` and passes each part to `read`.
absl::Status takeList(Line& line, char separator, const std::function<absl::Status(absl::string_view)>& read) {
  if (line.done())
    return line.faultAhead("a list is missing", absl::StrCat("values between '", std::string(1, separator), "'"));
  for (absl::string_view part : absl::StrSplit(line.take(), separator)) {
    if (part.empty()) return line.fault("an empty value in a list", "one value between two separators");
    TESSERA_RETURN_IF_ERROR(read(part));
  }
  return absl::OkStatus();
}

/// i1:Sp(core)/32
absl::Status readLoop(Line& line, v1::Loop& loop) {
  const std::string accepted = "DIMENSION:Tp/STEP or DIMENSION:Sp(UNIT)/STEP";
  const absl::string_view word = line.take();
  const size_t colon = word.find(':'), slash = word.rfind('/');
  if (colon == absl::string_view::npos || slash == absl::string_view::npos || slash < colon || colon == 0)
    return line.fault("no loop", accepted);
  loop.set_dimension(std::string(word.substr(0, colon)));
  const absl::string_view binding = word.substr(colon + 1, slash - colon - 1);
  if (absl::StartsWith(binding, "Sp(") && absl::EndsWith(binding, ")") && binding.size() > 4) {
    loop.set_unit(std::string(binding.substr(3, binding.size() - 4)));
  } else if (binding != "Tp") {
    return line.fault("a loop is neither temporal nor spatial", accepted);
  }
  int64_t step = 0;
  TESSERA_RETURN_IF_ERROR(readNumber(line, word.substr(slash + 1), step));
  loop.set_step(step);
  return absl::OkStatus();
}

/// 3.0.in1 or 3.0.out0
absl::Status readReference(Line& line, absl::string_view word, v1::Reference& reference) {
  const std::string accepted = "CHILD.STATEMENT.inINDEX or CHILD.STATEMENT.outINDEX";
  const std::vector<absl::string_view> parts = absl::StrSplit(word, '.');
  int child = 0, statement = 0, index = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &child) || !absl::SimpleAtoi(parts[1], &statement))
    return line.fault("no operand of a sibling", accepted);
  const bool result = absl::StartsWith(parts[2], "out");
  if (!result && !absl::StartsWith(parts[2], "in")) return line.fault("no operand of a sibling", accepted);
  if (!absl::SimpleAtoi(parts[2].substr(result ? 3 : 2), &index))
    return line.fault("no operand of a sibling", accepted);
  reference.set_child(child);
  reference.set_statement(statement);
  reference.set_result(result);
  reference.set_index(index);
  return absl::OkStatus();
}

absl::Status readFetch(Line& line, v1::Prefetch& fetch) {
  while (!line.done()) {
    absl::Status status;
    if (line.take("ahead")) {
      int32_t ahead = 0;
      status = takeNumber(line, ahead);
      fetch.set_ahead(ahead);
    } else if (line.take("rows")) {
      fetch.set_rows(true);
    } else if (line.take("panel")) {
      fetch.set_panel(true);
    } else if (line.take("results")) {
      fetch.set_results(true);
    } else if (line.take("next")) {
      status = takeList(line, ',',
                        [&](absl::string_view word) { return readReference(line, word, *fetch.add_next_slice()); });
    } else if (line.take("blocks")) {
      status = takeList(line, ',',
                        [&](absl::string_view word) { return readReference(line, word, *fetch.add_next_blocks()); });
    } else {
      return line.faultAhead("nothing that a kernel fetches", "ahead, rows, panel, results, next, blocks");
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status readKernel(Line& line, v1::Kernel& kernel) {
  kernel.set_variant(std::string(line.take()));
  if (!line.take("nest")) return line.faultAhead("a kernel names its nest", "nest NUMBER");
  int32_t nest = 0;
  TESSERA_RETURN_IF_ERROR(takeNumber(line, nest));
  kernel.set_nest(nest);
  auto names = [&](auto* field) {
    return takeList(line, ',', [field](absl::string_view word) {
      *field->Add() = std::string(word);
      return absl::OkStatus();
    });
  };
  while (!line.done()) {
    absl::Status status;
    if (line.take("operand")) {
      int32_t operand = 0;
      status = takeNumber(line, operand);
      kernel.set_operand(operand);
    } else if (line.take("with")) {
      kernel.set_instruction(std::string(line.take()));
    } else if (line.take("vectors")) {
      kernel.set_vector_loop(std::string(line.take()));
    } else if (absl::StartsWith(line.peek(), "x")) {
      int32_t lanes = 0;
      status = readNumber(line, line.take().substr(1), lanes);
      kernel.set_lanes(lanes);
    } else if (line.take("tile")) {
      status = takeList(line, ',', [&](absl::string_view word) {
        const size_t colon = word.find(':');
        int64_t size = 0;
        if (colon == absl::string_view::npos || !absl::SimpleAtoi(word.substr(colon + 1), &size))
          return line.fault("no extent of a tile", "DIMENSION:SIZE");
        v1::Extent* extent = kernel.add_tile();
        extent->set_dimension(std::string(word.substr(0, colon)));
        extent->set_size(size);
        return absl::OkStatus();
      });
    } else if (line.take("points")) {
      status = names(kernel.mutable_points());
    } else if (line.take("sums")) {
      status = names(kernel.mutable_reductions());
    } else if (line.take("transposed")) {
      kernel.set_transposed(std::string(line.take()));
    } else if (line.take("match")) {
      status = takeList(line, ',', [&](absl::string_view word) {
        const size_t colon = word.find(':');
        if (colon == absl::string_view::npos) return line.fault("no match of a loop", "LOOP:ITERATION");
        v1::Match* match = kernel.add_matching();
        match->set_loop(std::string(word.substr(0, colon)));
        match->set_iteration(std::string(word.substr(colon + 1)));
        return absl::OkStatus();
      });
    } else if (line.take("sources")) {
      status = takeList(line, ',', [&](absl::string_view word) {
        int32_t source = 0;
        absl::Status read = readNumber(line, word, source);
        kernel.add_sources(source);
        return read;
      });
    } else if (line.take("interleaved")) {
      kernel.set_interleaved(true);
    } else if (line.take("fetch")) {
      status = readFetch(line, *kernel.mutable_prefetch());
    } else {
      return line.faultAhead(
          "nothing that a kernel says",
          "operand, with INSTRUCTION, vectors, xLANES, tile, points, sums, transposed, match, sources, interleaved, "
          "fetch");
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status readStage(Line& line, v1::Stage& stage) {
  stage.set_layout(std::string(line.take()));
  auto names = [&](absl::string_view word) {
    stage.add_order(std::string(word));
    return absl::OkStatus();
  };
  if (stage.layout() == words::kBypass) {
    TESSERA_RETURN_IF_ERROR(takeList(line, ',', names));
    return line.done() ? absl::OkStatus() : line.faultAhead("more than expected", "the end of the line");
  }
  while (!line.done()) {
    absl::Status status;
    if (line.take("nest")) {
      int part = 0;
      status = takeList(line, '.', [&](absl::string_view word) {
        int32_t number = 0;
        TESSERA_RETURN_IF_ERROR(readNumber(line, word, number));
        if (part > 1) return line.fault("too many numbers", "NEST.STATEMENT");
        part++ == 0 ? stage.set_nest(number) : stage.set_statement(number);
        return absl::OkStatus();
      });
    } else if (line.take("operand")) {
      int32_t operand = 0;
      status = takeNumber(line, operand);
      stage.set_operand(operand);
    } else if (line.take("along")) {
      stage.set_along(std::string(line.take()));
    } else if (line.take("order")) {
      status = takeList(line, ',', names);
    } else if (line.take("strides")) {
      status = takeList(line, ',', [&](absl::string_view word) {
        int64_t stride = 0;
        TESSERA_RETURN_IF_ERROR(readNumber(line, word, stride));
        stage.add_strides(stride);
        return absl::OkStatus();
      });
    } else if (line.take("within")) {
      stage.set_within(true);
    } else if (line.take("outside")) {
      int32_t outside = 0;
      status = takeNumber(line, outside);
      stage.set_outside(outside);
    } else if (line.take("distance")) {
      int64_t distance = 0;
      status = takeNumber(line, distance);
      stage.set_distance(distance);
    } else if (line.take("ahead")) {
      int32_t ahead = 0;
      status = takeNumber(line, ahead);
      stage.set_ahead(ahead);
    } else {
      return line.faultAhead("nothing that a stage says",
                             "nest, operand, along, order, strides, distance, within, outside, ahead");
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status readTile(Line& line, v1::Tile& tile) {
  if (line.peek() != "[") tile.set_level(std::string(line.take()));
  if (!line.take("[")) return line.faultAhead("a tile names its loops", "[LOOPS]");
  while (!line.take("]")) {
    if (line.done()) return line.faultAhead("the list of loops does not end", "]");
    TESSERA_RETURN_IF_ERROR(readLoop(line, *tile.add_loops()));
  }
  if (const auto join = words::joinNamed(std::string(line.peek()))) {
    line.take();
    tile.set_join(*join);
  }
  if (line.take("softmax")) tile.set_deferred_softmax(true);
  return line.done() ? absl::OkStatus() : readKernel(line, *tile.mutable_kernel());
}

class Parser {
 public:
  explicit Parser(TextPlace place) : place_(place) {}

  absl::StatusOr<v1::Schedule> parse(absl::string_view text) {
    int number = place_.line;
    for (absl::string_view each : absl::StrSplit(text, '\n')) {
      Line line(number++, each);
      if (line.empty()) continue;
      if (line.indent() < static_cast<size_t>(place_.indent))
        return line.faultAhead("indented too little", absl::StrCat("at least ", place_.indent, " blanks"));
      TESSERA_RETURN_IF_ERROR(read(line));
    }
    return std::move(schedule_);
  }

 private:
  absl::Status read(Line& line) {
    const size_t indent = line.indent() - static_cast<size_t>(place_.indent);
    if (indent == 0 && line.take("vectors")) {
      int32_t bits = 0;
      absl::Status status = takeNumber(line, bits);
      schedule_.set_vector_bits(bits);
      return status.ok() ? ended(line) : status;
    }
    if (indent == 0 && line.take("fused")) {
      while (!line.done()) {
        v1::Fusion* fusion = schedule_.add_fused();
        absl::Status status = takeList(line, '+', [&](absl::string_view word) {
          int32_t operation = 0;
          absl::Status read = readNumber(line, word, operation);
          fusion->add_operations(operation);
          return read;
        });
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    }
    const size_t depth = indent / 2;
    if (indent % 2 != 0 || depth > open_.size())
      return line.faultAhead("indented too far",
                             absl::StrCat("at most ", place_.indent + 2 * open_.size(), " blanks, two a level"));
    if (depth > kMaxDepth) return line.faultAhead("nested too deeply", absl::StrCat("at most ", kMaxDepth, " levels"));
    open_.resize(depth);
    if (line.peek() == "stage") {
      line.take();
      if (open_.empty() || !open_.back().tile) return line.fault("a stage of nothing", "a tile one level further out");
      v1::Stage* stage = open_.back().tile->add_stages();
      open_.push_back({nullptr, stage});
      return readStage(line, *stage);
    }
    v1::Tile* tile = nullptr;
    if (open_.empty()) {
      tile = schedule_.add_phases();
    } else if (open_.back().stage) {
      tile = open_.back().stage->add_copies();
    } else {
      tile = open_.back().tile->add_children();
    }
    open_.push_back({tile, nullptr});
    return readTile(line, *tile);
  }

  static absl::Status ended(Line& line) {
    return line.done() ? absl::OkStatus() : line.faultAhead("more than expected", "the end of the line");
  }

  struct Open {
    v1::Tile* tile;
    v1::Stage* stage;
  };
  TextPlace place_;
  v1::Schedule schedule_;
  std::vector<Open> open_;  ///< tiles to which the next line may belong, outermost first
};

}  // namespace

absl::StatusOr<v1::Schedule> parseSchedule(absl::string_view text, TextPlace place) {
  if (text.size() > kMaxBytes)
    return failureStatus(v1::Failure::INVALID_SCHEDULE,
                         absl::StrCat("schedule: ", text.size(), " bytes, accepted: at most ", kMaxBytes));
  return Parser(place).parse(text);
}

}  // namespace tessera::compiler
