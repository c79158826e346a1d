#include "proto/messages/plan_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/messages/plan_loops.h"

namespace tessera {
namespace {

using v1::GraphView;

constexpr int kOutside = -1;

/// Counts the arguments of the function in a workload's IR text: names with '%' before the first ')' of that level.
int argumentsOf(std::string_view ir) {
  size_t at = ir.find("func.func");
  at = at == ir.npos ? ir.npos : ir.find('(', at);
  int count = 0;
  int depth = 0;
  for (; at < ir.size(); ++at) {
    if (ir[at] == '(') ++depth;
    if (ir[at] == ')' && --depth == 0) break;
    if (ir[at] == '%' && depth == 1) ++count;
  }
  return count;
}

/// The last writer of each byte range of a memory space.
class LastWriters {
 public:
  void write(int64_t begin, int64_t end, int step) {
    // Split the intervals at both ends, so that the covered ones can be replaced as a whole.
    cut(begin);
    cut(end);
    spans_.erase(spans_.lower_bound(begin), spans_.lower_bound(end));
    spans_[begin] = {end, step};
  }

  std::set<int> of(int64_t begin, int64_t end) const {
    std::set<int> steps;
    auto span = spans_.upper_bound(begin);
    if (span != spans_.begin()) --span;
    for (; span != spans_.end() && span->first < end; ++span) {
      if (span->second.end > begin) steps.insert(span->second.step);
    }
    return steps;
  }

 private:
  struct Span {
    int64_t end;
    int step;
  };

  void cut(int64_t at) {
    auto span = spans_.upper_bound(at);
    if (span == spans_.begin()) return;
    --span;
    if (span->first == at || span->second.end <= at) return;
    const Span right = span->second;
    span->second.end = at;
    spans_[at] = right;
  }

  std::map<int64_t, Span> spans_;  // key: first byte; intervals are disjoint
};

class View {
 public:
  explicit View(const v1::Plan& plan)
      : plan_(plan), memory_(memoryOfBuffers(plan)), iterations_(iterationsOfSteps(plan)) {}

  GraphView run() {
    for (int step = 0; step < plan_.steps_size(); ++step) addStep(step);
    for (int output = 0; output < plan_.outputs_size(); ++output) addOutput(output);
    return std::move(view_);
  }

 private:
  /// Memory space of a buffer. Inputs are never written; each output is a space, and the arena is one.
  static std::pair<int, int> spaceOf(const v1::Buffer& buffer) {
    return {buffer.kind(), buffer.kind() == v1::Buffer::ARENA ? 0 : buffer.index()};
  }
  static std::pair<int64_t, int64_t> rangeOf(const v1::Buffer& buffer) {
    const int64_t begin = buffer.kind() == v1::Buffer::ARENA ? buffer.offset() : 0;
    const int64_t size = std::max<int64_t>(1, buffer.size_bytes());
    return {begin, begin > INT64_MAX - size ? INT64_MAX : begin + size};
  }

  /// Reserves `bytes` of the budget for copied text; false if it would be exceeded.
  bool copies(size_t bytes) {
    if (bytes > kMaxCopiedBytes - copied_) return false;
    copied_ += bytes;
    return true;
  }

  void addEdge(int from, int to, const v1::TensorSpec& tensor, const std::string& layout) {
    if (view_.edges_size() >= kMaxEdges || !copies(tensor.ByteSizeLong() + layout.size())) return;
    GraphView::Edge* edge = view_.add_edges();
    edge->set_from(from);
    edge->set_to(to);
    *edge->mutable_tensor() = tensor;
    edge->set_layout(layout);
  }

  void addStep(int index) {
    const v1::Step& step = plan_.steps(index);
    if (step.workload() < 0 || step.workload() >= plan_.workloads_size()) return;
    const v1::Workload& workload = plan_.workloads(step.workload());
    GraphView::Node* node = view_.add_nodes();
    node->set_id(index);
    if (copies(step.name().size() + workload.summary().size())) {
      node->set_name(step.name());
      node->set_op(workload.summary());
    }
    const int64_t times = iterations_[static_cast<size_t>(index)];
    node->set_flops(workload.flops() > INT64_MAX / times ? INT64_MAX : workload.flops() * times);
    node->set_bytes(workload.bytes() > INT64_MAX / times ? INT64_MAX : workload.bytes() * times);
    node->set_kernel(step.workload());
    const auto [known, unseen] = arguments_.try_emplace(step.workload(), 0);
    if (unseen) known->second = argumentsOf(workload.ir());
    const int arguments = std::min(known->second, step.operands_size());
    std::string same_shape;  // layout of an operand with the result's shape; element-wise operations preserve it
    const v1::Buffer* result = arguments < step.operands_size() ? bufferAt(step.operands(arguments)) : nullptr;
    for (int i = 0; i < arguments; ++i) {
      const v1::Buffer* buffer = bufferAt(step.operands(i));
      if (buffer == nullptr || buffer->kind() == v1::Buffer::WEIGHT || buffer->kind() == v1::Buffer::PREPARED) continue;
      const std::string layout = read(*buffer, index);
      // Element-wise steps pass on the layout of an operand with the shape of their result.
      if (result != nullptr && !layout.empty() && sameShape(*buffer, *result)) same_shape = layout;
    }
    if (result != nullptr) node->set_layout(layoutOf(workload.summary(), result->spec()));
    if (node->layout().empty()) node->set_layout(same_shape);
    for (int i = arguments; i < step.operands_size(); ++i) {
      const v1::Buffer* buffer = bufferAt(step.operands(i));
      if (buffer == nullptr) continue;
      const auto [begin, end] = rangeOf(*buffer);
      writers_[spaceOf(*buffer)].write(begin, end, index);
    }
    layouts_[index] = node->layout();
  }

  /// Adds edges into `step` from the writers of `buffer`. Returns the tensor's layout, if known.
  std::string read(const v1::Buffer& buffer, int step) {
    if (buffer.kind() == v1::Buffer::INPUT) {
      addEdge(kOutside, step, buffer.spec(), "");
      return "";
    }
    std::string layout;
    if (view_.edges_size() >= kMaxEdges) return layout;
    const auto [begin, end] = rangeOf(buffer);
    for (int writer : writers_[spaceOf(buffer)].of(begin, end)) {
      layout = layouts_[writer];
      addEdge(writer, step, buffer.spec(), layout);
    }
    return layout;
  }

  void addOutput(int index) {
    const v1::TensorSpec& spec = plan_.outputs(index);
    for (int writer : writers_[{v1::Buffer::OUTPUT, index}].of(0, INT64_MAX)) {
      addEdge(writer, kOutside, spec, layouts_[writer]);
    }
  }

  /// Returns the buffer whose memory this buffer occupies.
  const v1::Buffer* bufferAt(int index) const {
    return index >= 0 && index < plan_.buffers_size() ? &plan_.buffers(memory_[static_cast<size_t>(index)]) : nullptr;
  }
  static bool sameShape(const v1::Buffer& a, const v1::Buffer& b) {
    return std::equal(a.spec().shape().begin(), a.spec().shape().end(), b.spec().shape().begin(),
                      b.spec().shape().end());
  }

  const v1::Plan& plan_;
  const std::vector<int> memory_;          // per buffer
  const std::vector<int64_t> iterations_;  // per step
  GraphView view_;
  size_t copied_ = 0;             // bytes
  std::map<int, int> arguments_;  // by workload; cached, since many steps may share a long IR text
  std::map<std::pair<int, int>, LastWriters> writers_;
  std::map<int, std::string> layouts_;  // layout of a step's first result
};

/// Parses image rank and channels of the result from "conv2d 3x3 s1 64->128 56x56 + relu". False if the summary has
/// another form.
bool parseWindowed(const std::string& summary, int& image_rank, int64_t& channels) {
  // Generated summaries are shorter. An untrusted one is split once per step that uses it.
  constexpr size_t kLongest = 4096;
  if (summary.size() > kLongest) return false;
  const std::vector<std::string> words = absl::StrSplit(summary, ' ');
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& kind = words[i];
    const size_t digit = kind.size() < 2 ? 0 : kind.size() - 2;
    const bool windowed = kind.starts_with("conv") || kind.starts_with("depthwise-conv") || kind.starts_with("pool");
    if (!windowed || kind.back() != 'd' || kind[digit] < '1' || kind[digit] > '3') continue;
    image_rank = kind[digit] - '0';
    int64_t groups = 1;
    for (size_t j = i + 2; j < words.size(); ++j) {  // after the window's extents
      const std::string& word = words[j];
      if (word.size() > 1 && word[0] == 'g' && absl::SimpleAtoi(word.substr(1), &groups)) continue;
      if (word.empty() || word[0] == 's' || word[0] == 'd') continue;
      const size_t arrow = word.find("->");
      if (!absl::SimpleAtoi(arrow == word.npos ? word : word.substr(arrow + 2), &channels)) return false;
      channels *= groups;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string layoutOf(const std::string& summary, const v1::TensorSpec& tensor) {
  static constexpr const char* kImages[] = {"", "W", "HW", "DHW"};
  int image_rank = 0;
  int64_t channels = 0;
  if (!parseWindowed(summary, image_rank, channels)) return "";
  const std::string image = kImages[image_rank];
  const int rank = tensor.shape_size();
  if (rank == image_rank + 3) {  // only blocked layouts have this rank; padded blocks hold more than the channels
    return absl::StrCat("NC", image, tensor.shape(rank - 1), "c");
  }
  if (rank == image_rank + 2 && tensor.shape(1) == channels) return absl::StrCat("NC", image);
  if (rank == image_rank + 2 && tensor.shape(rank - 1) == channels) return absl::StrCat("N", image, "C");
  return "";
}

GraphView viewPlan(const v1::Plan& plan) { return View(plan).run(); }

}  // namespace tessera
