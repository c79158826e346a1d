#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "compiler/artifact/description.h"
#include "compiler/artifact/reweight.h"
#include "proto/messages/deterministic_bytes.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxLines = 12;
constexpr size_t kMaxOfOneKind = 4;  // differences of one kind in one variant
constexpr size_t kMaxText = 160;     // of a line of a kernel's text

std::string shortened(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  return text.size() <= kMaxText ? std::string(text) : absl::StrCat(text.substr(0, kMaxText), " ...");
}

std::string specText(const v1::TensorSpec& spec) {
  return absl::StrCat(v1::DataType_Name(spec.dtype()), "[", absl::StrJoin(spec.shape(), ","), "]");
}

/// The first line in which the texts of two kernels differ.
std::pair<std::string, std::string> firstDifference(const v1::Workload& base, const v1::Workload& other) {
  const std::vector<absl::string_view> a = absl::StrSplit(base.ir(), '\n'), b = absl::StrSplit(other.ir(), '\n');
  const auto [left, right] = std::ranges::mismatch(a, b);
  return {left == a.end() ? "" : shortened(*left), right == b.end() ? "" : shortened(*right)};
}

/// The workload of a step. A plan from a file may name one that it does not have.
const v1::Workload& workloadOf(const v1::Plan& plan, const v1::Step& step) {
  const bool known = step.workload() >= 0 && step.workload() < plan.workloads_size();
  return known ? plan.workloads(step.workload()) : v1::Workload::default_instance();
}

/// Compares one variant of two plans, whose workloads are in `base_` and `other_`.
class VariantComparison {
 public:
  VariantComparison(const v1::Plan& base, const v1::Plan& other, std::vector<std::string>& lines)
      : base_(base), other_(other), lines_(lines) {}

  void compare(const v1::Plan& a, const v1::Plan& b) {
    compareInterface("input", a.inputs(), b.inputs());
    compareInterface("output", a.outputs(), b.outputs());
    compareValues("fixed input", a.fixed_inputs(), b.fixed_inputs());
    compareValues("default value of input", a.default_inputs(), b.default_inputs());
    compareSteps(a, b);
    compareRewrites(a.report(), b.report());
    compareWeights(a, b);
  }

 private:
  void add(std::string line) {
    if (lines_.size() < kMaxLines && std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(std::move(line));
  }

  void compareInterface(const char* kind, const auto& a, const auto& b) {
    if (a.size() != b.size()) add(absl::StrCat(a.size(), " ", kind, "s, the model has ", b.size()));
    for (int i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (deterministicBytes(a[i]) == deterministicBytes(b[i])) continue;
      add(absl::StrCat(kind, " '", a[i].name(), "': ", specText(a[i]), ", the model has '", b[i].name(),
                       "': ", specText(b[i])));
    }
  }

  void compareValues(const char* kind, const auto& a, const auto& b) {
    for (int i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size() && i < b.size() && deterministicBytes(a[i]) == deterministicBytes(b[i])) continue;
      add(absl::StrCat(kind, " '", (i < a.size() ? a[i] : b[i]).spec().name(), "' differs"));
    }
  }

  void compareSteps(const v1::Plan& a, const v1::Plan& b) {
    size_t named = 0;
    std::set<std::string> seen;
    for (int s = 0; s < std::min(a.steps_size(), b.steps_size()) && named < kMaxOfOneKind; ++s) {
      const v1::Workload& was = workloadOf(base_, a.steps(s));
      const v1::Workload& is = workloadOf(other_, b.steps(s));
      const bool renamed = a.steps(s).name() != b.steps(s).name();
      if (was.hash() == is.hash() && !renamed) continue;
      if (was.hash() != is.hash() && !seen.insert(was.hash()).second) continue;
      ++named;
      const std::string step = absl::StrCat("step ", s + 1, " '", a.steps(s).name(), "'");
      if (renamed) {
        // The steps are shifted from here on; further lines would name places that do not correspond.
        add(absl::StrCat(step, " (", was.summary(), ") becomes '", b.steps(s).name(), "' (", is.summary(), ")"));
        break;
      }
      if (was.summary() != is.summary()) {
        add(absl::StrCat(step, ": ", was.summary(), " becomes ", is.summary()));
        continue;
      }
      if (was.ir().empty() || is.ir().empty()) {  // plans of explanations have no text
        add(absl::StrCat(step, ": ", was.summary(), " has other constants in its code"));
        continue;
      }
      const auto [left, right] = firstDifference(was, is);
      add(absl::StrCat(step, ": ", was.summary(), " has in its code `", left, "`, these weights need `", right, "`"));
    }
    if (a.steps_size() != b.steps_size())
      add(absl::StrCat(a.steps_size(), " steps, with these weights ", b.steps_size()));
  }

  void compareRewrites(const v1::GraphReport& a, const v1::GraphReport& b) {
    std::map<std::string, std::pair<int, int>> counts;
    for (const v1::RewriteCount& each : a.rewrites()) counts[each.name()].first = each.count();
    for (const v1::RewriteCount& each : b.rewrites()) counts[each.name()].second = each.count();
    for (const auto& [name, count] : counts)
      if (count.first != count.second)
        add(absl::StrCat("rewrite ", name, ": ", count.first, " times, with these weights ", count.second));
  }

  static std::map<std::string, std::string> weightsOf(const v1::Plan& plan) {
    std::map<std::string, std::string> weights;
    for (const v1::Buffer& buffer : plan.buffers())
      if (buffer.kind() == v1::Buffer::WEIGHT) {
        const std::string key = absl::StrCat("'", buffer.spec().name(), "' ", specText(buffer.spec()));
        absl::StrAppend(&weights[key], weights[key].empty() ? "" : ", ", buffer.offset());
      }
    return weights;
  }

  void compareWeights(const v1::Plan& a, const v1::Plan& b) {
    const auto was = weightsOf(a), is = weightsOf(b);
    size_t named = 0;
    for (const auto& [key, offsets] : was)
      if (!is.contains(key) && named++ < kMaxOfOneKind)
        add(absl::StrCat("stored weight ", key, ": with these weights there is none"));
    for (const auto& [key, offsets] : is)
      if (!was.contains(key) && named++ < kMaxOfOneKind)
        add(absl::StrCat("stored weight ", key, " is only with these weights"));
    if (named > 0) return;
    // The same weights at other places: some are stored once because they are equal.
    for (const auto& [key, offsets] : was)
      if (is.at(key) != offsets) {
        add(absl::StrCat("stored weight ", key, " is at another place: equal weights are stored once"));
        return;
      }
  }

  const v1::Plan& base_;
  const v1::Plan& other_;
  std::vector<std::string>& lines_;
};

}  // namespace

std::vector<std::string> codeDifferences(const v1::Plan& base, const v1::Plan& plan) {
  std::vector<std::string> lines;
  if (deterministicBytes(planOfCode(base)) == deterministicBytes(planOfCode(plan))) return lines;
  if (base.compiler_version() != plan.compiler_version()) {
    return {absl::StrCat("compiled by ", base.compiler_version(), ", this compiler is ", plan.compiler_version())};
  }
  VariantComparison comparison(base, plan, lines);
  comparison.compare(base, plan);
  if (base.variants_size() != plan.variants_size())
    lines.push_back(absl::StrCat(base.variants_size() + 1, " variants, with these weights ", plan.variants_size() + 1));
  for (int v = 0; v < std::min(base.variants_size(), plan.variants_size()); ++v)
    comparison.compare(base.variants(v), plan.variants(v));
  if (base.has_preparation() || plan.has_preparation()) comparison.compare(base.preparation(), plan.preparation());
  if (lines.empty()) lines.emplace_back("the schedules or the layout of memory differ");
  return lines;
}

}  // namespace tessera::compiler
