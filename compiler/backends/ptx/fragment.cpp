#include "compiler/backends/ptx/fragment.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/digits.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::ptx {
namespace {

/// A number composed of digits: for each of its values, the contribution to either subscript.
absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> placesOf(
    const google::protobuf::RepeatedPtrField<std::string>& digits, const std::string& first, int64_t first_extent,
    const std::string& second, int64_t second_extent) {
  std::vector<std::pair<int64_t, int64_t>> places = {{0, 0}};
  for (const std::string& text : digits) {
    TESSERA_ASSIGN_OR_RETURN(const Digit digit, parseDigit(text));
    if (digit.iteration != first && digit.iteration != second) {
      return absl::FailedPreconditionError(absl::StrCat("'", text, "' is no subscript of the operand"));
    }
    const bool is_first = digit.iteration == first;
    const int64_t extent = is_first ? first_extent : second_extent;
    const int64_t values = digit.values > 0 ? digit.values : extent / digit.divisor;
    if (values < 1 || digit.divisor * values > extent) {
      return absl::FailedPreconditionError(absl::StrCat("'", text, "' goes beyond the iteration's ", extent));
    }
    // A later digit varies faster: each place is extended by all values of the digit.
    std::vector<std::pair<int64_t, int64_t>> next;
    for (const auto& [row, column] : places) {
      for (int64_t value = 0; value < values; ++value) {
        const int64_t add = value * digit.divisor;
        next.emplace_back(row + (is_first ? add : 0), column + (is_first ? 0 : add));
      }
    }
    places = std::move(next);
  }
  return places;
}

}  // namespace

absl::StatusOr<Fragment> fragmentOf(const v1::Intrinsic& intrinsic, const loopnest::Nest& instruction, size_t operand) {
  const loopnest::Access& access = instruction.accesses[operand];
  const std::string what = absl::StrCat("operand ", access.name, " of ", intrinsic.name());
  const v1::Intrinsic::Fragment* described = nullptr;
  for (const auto& fragment : intrinsic.threads().fragments()) {
    if (fragment.operand() == access.name) described = &fragment;
  }
  if (!described) return absl::FailedPreconditionError(absl::StrCat(what, ": its fragment is not described"));
  Fragment fragment;
  fragment.threads = intrinsic.threads().threads();
  fragment.registers = described->registers();
  fragment.type = described->register_type();
  if (described->lanes().empty() && described->slots().empty()) return fragment;
  std::vector<int> subscripts;
  for (const loopnest::Subscript& subscript : access.subscripts) {
    if (subscript.terms.size() == 1 && subscript.terms[0].coefficient == 1 && subscript.constant == 0) {
      subscripts.push_back(subscript.terms[0].loop);
    }
  }
  if (subscripts.size() != 2 || access.subscripts.size() != 2 || subscripts[0] == subscripts[1]) {
    return absl::FailedPreconditionError(absl::StrCat(what, " is no matrix of two iterations"));
  }
  const loopnest::Loop &first = instruction.loops[subscripts[0]], &second = instruction.loops[subscripts[1]];
  const auto lanes = placesOf(described->lanes(), first.name, first.extent, second.name, second.extent);
  const auto slots = placesOf(described->slots(), first.name, first.extent, second.name, second.extent);
  for (const auto* places : {&lanes, &slots}) {
    if (!places->ok())
      return absl::FailedPreconditionError(absl::StrCat(what, ": ", std::string(places->status().message())));
  }
  // Every element exactly once: as many places as elements, and no two of them equal.
  std::set<std::pair<int64_t, int64_t>> held;
  for (const auto& [row, column] : *lanes) {
    fragment.first.push_back(row);
    fragment.second.push_back(column);
    for (const auto& [more_rows, more_columns] : *slots) held.emplace(row + more_rows, column + more_columns);
  }
  for (const auto& [row, column] : *slots) {
    fragment.first_of.push_back(row);
    fragment.second_of.push_back(column);
  }
  const auto elements = static_cast<size_t>(first.extent * second.extent);
  const bool whole = lanes->size() == static_cast<size_t>(fragment.threads) && fragment.registers > 0 &&
                     slots->size() % static_cast<size_t>(fragment.registers) == 0 && held.size() == elements &&
                     lanes->size() * slots->size() == elements;
  if (!whole) {
    return absl::FailedPreconditionError(absl::StrCat(what, ": the digits of its fragment do not give each of its ",
                                                      elements, " elements to one of ", fragment.threads, " threads"));
  }
  fragment.in_register = static_cast<int>(slots->size()) / fragment.registers;
  return fragment;
}

std::vector<std::pair<int64_t, int64_t>> rowsOf(const Fragment& fragment, const v1::Intrinsic::MatrixLoad& fetch,
                                                int slot, int along, int64_t element_bytes) {
  const int part = fragment.in_register;                                   // elements in a register
  const int in_row = static_cast<int>(fetch.row_bytes() / element_bytes);  // elements in a row
  if (in_row * fetch.rows() != part * fragment.threads || in_row % part != 0 || fetch.rows() % part != 0) return {};
  const auto place = [&](int thread, int element) {
    const size_t s = static_cast<size_t>(slot) * part + element;
    return std::pair(fragment.first[thread] + fragment.first_of[s], fragment.second[thread] + fragment.second_of[s]);
  };
  for (const bool turned : {false, true}) {
    // Element e of thread t is column column(t, e) of row row(t, e).
    const int parts = turned ? fetch.rows() / part : in_row / part;
    std::vector<std::pair<int64_t, int64_t>> rows(static_cast<size_t>(fetch.rows()));
    // The first pass takes the beginning of each row from its column 0; the second one compares all other elements with
    // it.
    for (const bool compare : {false, true}) {
      bool right = true;
      for (int t = 0; t < fragment.threads && right; ++t) {
        for (int e = 0; e < part && right; ++e) {
          const int within = t % parts * part + e, other = t / parts;
          const int row = turned ? within : other, column = turned ? other : within;
          auto begin = place(t, e);
          (along == 0 ? begin.first : begin.second) -= column;
          if (!compare) {
            if (column == 0) rows[static_cast<size_t>(row)] = begin;
          } else {
            right = rows[static_cast<size_t>(row)] == begin;
          }
        }
      }
      if (compare && right) return rows;
    }
  }
  return {};
}

}  // namespace tessera::compiler::ptx
