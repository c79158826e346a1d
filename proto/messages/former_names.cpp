#include "proto/messages/former_names.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"

namespace tessera {
namespace {

struct FormerName {
  std::string_view former, present;
  std::string_view parent = {};  ///< present name of the enclosing field; empty: any
};

constexpr FormerName kFormerNames[] = {
    {"apart_us", "separate_us"},
    {"beside_inner", "peer_of_inner"},
    {"copied_share", "packed_share"},
    {"crowded_share", "min_core_share"},
    {"even_threads", "balanced_threads"},
    {"exposed_ahead_share", "exposed_prefetched_share"},
    {"few_runs", "always_followed_runs"},
    {"filled_panel_rows", "padded_panel_rows"},
    {"filled_waits_beside_share", "fill_stall_smt_share"},
    {"filled_waits_share", "fill_stall_share"},
    {"held_share", "resident_share"},
    {"least_ahead", "min_prefetch_distance"},
    {"least_block", "min_reduction_block"},
    {"least_gain", "min_gain"},
    {"least_instructions", "min_instructions"},
    {"least_running_block", "min_running_softmax_block"},
    {"least_share", "min_share"},
    {"least_slice_iterations", "min_slice_iterations"},
    {"lines_ahead", "max_lines_in_flight"},
    {"long_sum", "long_reduction"},
    {"longest_reduction", "max_reduction_block"},
    {"most_copies", "max_copies"},
    {"most_slices", "max_slices"},
    {"most_threads", "max_threads"},
    {"near_lines", "adjacent_lines"},
    {"pack_rows_colliding", "pack_rows_if_conflicting"},
    {"pack_rows_far", "pack_rows_beyond_l2"},
    {"point_columns", "columns_per_part"},
    {"price_us", "cost_us"},
    {"rest_share", "remainder_share"},
    {"scarce_instructions", "min_instructions_if_few_parts"},
    {"slice_turn_back_cycles", "slice_transpose_store_cycles"},
    {"slice_turn_cycles", "slice_transpose_cycles"},
    {"spread_passes", "pack_passes_if_evicted"},
    {"stacked_rows", "max_merged_rows"},
    {"staying_share", "stationary_share"},
    {"steps_ahead", "prefetch_distance"},
    {"turn_cycles", "transpose_cycles"},
    {"uneven_share", "max_idle_share"},
    {"worthwhile", "min_reduction_distances"},
    {"written_passes", "transfers_per_written_line"},
    {"steps", "overheads", "cost_parameters"},
    {"fetches", "prefetching", "cost_parameters"},
    {"fetches", "matrix_loads", "threads"},
    {"fetch", "prefetch", "kernel"},
    {"prices", "cost_parameters"},
};

std::string lowerCamelCase(std::string_view name) {
  std::string result;
  bool upper = false;
  for (const char c : name) {
    if (c != '_') result += upper ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    upper = c == '_';
  }
  return result;
}

struct Replacement {
  std::string present;           ///< in the spelling of the former name
  std::string_view field;        ///< the same, as in the schema
  std::string_view parent = {};  ///< as FormerName::parent
};

/// By former name, in both spellings.
const std::multimap<std::string, Replacement, std::less<>>& replacements() {
  static const auto* const all = [] {
    auto* const made = new std::multimap<std::string, Replacement, std::less<>>;
    for (const FormerName& name : kFormerNames) {
      made->emplace(name.former, Replacement{std::string(name.present), name.present, name.parent});
      const std::string camel = lowerCamelCase(name.former);
      if (camel != name.former) {
        made->emplace(camel, Replacement{lowerCamelCase(name.present), name.present, name.parent});
      }
    }
    return made;
  }();
  return *all;
}

/// Copies a message in text or JSON form and replaces names of fields. It follows nesting only as far as the names need
/// it, and leaves the judgement of malformed input to the parser.
class Replacer {
 public:
  Replacer(const std::string& text, bool json) : text_(text), json_(json) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || (!json_ && c == '\'')) {
        quoted(c);
      } else if (!json_ && c == '#') {
        copy(std::min(text_.find('\n', at_), text_.size()));
      } else if (!json_ && isNameStart(c)) {
        size_t end = at_;
        while (end < text_.size() && (isNameStart(text_[end]) || absl::ascii_isdigit(text_[end]))) ++end;
        name(at_, end, end, startsValue(end, ":{<"));
      } else {
        bracket(c);
        copy(at_ + 1);
      }
    }
    return std::move(result_);
  }

 private:
  static bool isNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }

  void copy(size_t end) {
    result_.append(text_, at_, end - at_);
    at_ = end;
  }

  /// Whether the next character after spaces is one of `starts`.
  bool startsValue(size_t at, std::string_view starts) const {
    while (at < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at]))) ++at;
    return at < text_.size() && starts.find(text_[at]) != std::string_view::npos;
  }

  void quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    end = std::min(end, text_.size());
    const size_t after = std::min(end + 1, text_.size());
    if (json_ && startsValue(after, ":")) {
      copy(at_ + 1);
      name(at_, end, after, true);
    } else {
      copy(after);
    }
  }

  /// Copies what is between `begin` and `end`, a name if it is the name of a field, and on to `after`.
  void name(size_t begin, size_t end, size_t after, bool is_field) {
    if (is_field) {
      const std::string_view found = std::string_view(text_).substr(begin, end - begin);
      at_ = begin;
      field_ = presentName(found);
      const auto [first, last] = replacements().equal_range(found);
      const auto replacement = std::find_if(first, last, [&](const auto& entry) {
        const std::string_view parent = entry.second.parent;
        return parent.empty() || (!parents_.empty() && parents_.back() == parent);
      });
      // Text has the schema's spelling only.
      if (replacement != last && (json_ || field_ == found)) {
        result_ += replacement->second.present;
        field_ = replacement->second.field;
        at_ = end;
      }
    }
    copy(after);
  }

  /// The name as in the schema.
  static std::string presentName(std::string_view found) {
    std::string result;
    for (const char c : found) {
      if (absl::ascii_isupper(static_cast<unsigned char>(c))) result += '_';
      result += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
    return result;
  }

  void bracket(char c) {
    if (c == '{' || c == '<') parents_.push_back(field_);
    if ((c == '}' || c == '>') && !parents_.empty()) {
      field_ = parents_.back();  // the next element of a list belongs to the same field
      parents_.pop_back();
    }
  }

  const std::string& text_;
  const bool json_;
  size_t at_ = 0;
  std::string result_;
  std::string field_;                 ///< the last field named
  std::vector<std::string> parents_;  ///< fields that enclose it, outermost first
};

}  // namespace

std::string withPresentNamesInText(const std::string& text) { return Replacer(text, false).run(); }
std::string withPresentNamesInJson(const std::string& json) { return Replacer(json, true).run(); }

}  // namespace tessera
