#include <limits>
#include <queue>

#include "absl/container/inlined_vector.h"
#include "compiler/cost/simulate/task_graph.h"

namespace tessera::compiler::cost {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A port that serves all its transfers at once, each at an equal share of the bandwidth. `served_` is what one
/// transfer would have received since the beginning; a transfer ends when it has grown by the transfer's bytes.
class Port {
 public:
  explicit Port(double bytes_per_cycle) : bytes_per_cycle_(bytes_per_cycle) {}

  void start(double now, int task, double bytes) {
    advance(now);
    waiting_.push({served_ + bytes, task});
  }
  /// The cycle in which the next transfer ends.
  double next() const {
    if (waiting_.empty()) return kNever;
    const double share = bytes_per_cycle_ / static_cast<double>(waiting_.size());
    return now_ + (waiting_.top().end - served_) / share;
  }
  int finish(double now) {
    advance(now);
    const int task = waiting_.top().task;
    served_ = waiting_.top().end;
    waiting_.pop();
    return task;
  }

 private:
  struct Transfer {
    double end = 0;
    int task = 0;
    bool operator>(const Transfer& other) const { return end > other.end; }
  };

  void advance(double now) {
    if (!waiting_.empty()) served_ += (now - now_) * bytes_per_cycle_ / static_cast<double>(waiting_.size());
    now_ = now;
  }

  double bytes_per_cycle_;
  double now_ = 0, served_ = 0;
  std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> waiting_;
};

class Run {
 public:
  explicit Run(const TaskGraph& graph)
      : graph_(graph), ends_(graph.tasks.size(), 0), pending_(graph.tasks.size(), 0), next_(graph.tasks.size()) {
    for (const double bytes : graph.port_bytes_per_cycle) ports_.emplace_back(bytes);
    for (size_t task = 0; task < graph.tasks.size(); ++task) {
      for (const int earlier : graph.tasks[task].waits_for) {
        next_[static_cast<size_t>(earlier)].push_back(static_cast<int>(task));
        ++pending_[task];
      }
    }
  }

  std::vector<double> run() {
    for (size_t task = 0; task < pending_.size(); ++task)
      if (pending_[task] == 0) ready_.push_back(static_cast<int>(task));
    startAll(0);
    while (true) {
      double now = computing_.empty() ? kNever : computing_.top().first;
      size_t port = ports_.size();
      for (size_t p = 0; p < ports_.size(); ++p) {
        if (ports_[p].next() >= now) continue;
        now = ports_[p].next();
        port = p;
      }
      if (now == kNever) return std::move(ends_);
      if (port < ports_.size()) {
        part(ports_[port].finish(now), now);
      } else {
        const int task = computing_.top().second;
        computing_.pop();
        part(task, now);
      }
      startAll(now);
    }
  }

 private:
  /// One of the task's uses of ports or units has ended.
  void part(int task, double now) {
    if (--pending_[static_cast<size_t>(task)] == 0) end(task, now);
  }

  void end(int task, double now) {
    ends_[static_cast<size_t>(task)] = now;
    for (const int later : next_[static_cast<size_t>(task)])
      if (--pending_[static_cast<size_t>(later)] == 0) ready_.push_back(later);
  }

  void startAll(double now) {
    while (!ready_.empty()) {
      const int position = ready_.back();
      ready_.pop_back();
      const Task& task = graph_.tasks[static_cast<size_t>(position)];
      int& parts = pending_[static_cast<size_t>(position)];
      if (task.read_port >= 0 && task.read_bytes > 0) {
        ++parts;
        ports_[static_cast<size_t>(task.read_port)].start(now, position, task.read_bytes);
      }
      if (task.write_port >= 0 && task.write_bytes > 0) {
        ++parts;
        ports_[static_cast<size_t>(task.write_port)].start(now, position, task.write_bytes);
      }
      if (task.duration > 0) {
        ++parts;
        computing_.emplace(now + task.duration, position);
      }
      if (parts == 0) end(position, now);
    }
  }

  const TaskGraph& graph_;
  std::vector<Port> ports_;
  std::vector<double> ends_;
  std::vector<int> pending_;  ///< tasks to wait for; of a running task, uses of ports and units that have not ended
  std::vector<absl::InlinedVector<int, 2>> next_;
  std::vector<int> ready_;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> computing_;
};

}  // namespace

std::vector<double> runTasks(const TaskGraph& graph) { return Run(graph).run(); }

}  // namespace tessera::compiler::cost
