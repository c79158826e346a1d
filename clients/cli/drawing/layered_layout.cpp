#include "clients/cli/drawing/layered_layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tessera::client {
namespace {

constexpr double kBetweenBoxes = 18;
constexpr double kBetweenLayers = 34;
constexpr double kBendWidth = 6;
constexpr int kOrderSweeps = 8;
constexpr int kPositionSweeps = 8;
/// Above this number a drawing is unreadable anyway, and arrows are drawn straight.
constexpr int64_t kMaxBends = 200'000;

/// A box or a bend in a layer.
struct Item {
  int layer = 0;
  double width = 0, height = 0, x = 0;
  std::vector<int> up, down;
};

class Layering {
 public:
  explicit Layering(const BoxGraph& graph) : graph_(graph) {}

  Placement run() {
    assignLayers();
    addBends();
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) orderLayers(sweep % 2 == 0);
    for (std::vector<int>& layer : layers_) pack(layer);
    for (int sweep = 0; sweep < kPositionSweeps; ++sweep) alignLayers(sweep % 2 == 0);
    return place();
  }

 private:
  bool drawn(size_t arrow) const { return graph_.arrows[arrow].first < graph_.arrows[arrow].second; }

  void assignLayers() {
    const size_t boxes = graph_.boxes.size();
    items_.resize(boxes);
    std::vector<std::vector<int>> in(boxes), out(boxes);
    for (size_t a = 0; a < graph_.arrows.size(); ++a) {
      if (!drawn(a)) continue;
      in[graph_.arrows[a].second].push_back(graph_.arrows[a].first);
      out[graph_.arrows[a].first].push_back(graph_.arrows[a].second);
    }
    for (size_t i = 0; i < boxes; ++i) {
      items_[i].width = graph_.boxes[i].width;
      items_[i].height = graph_.boxes[i].height;
      // Positions are topological, so all predecessors have their final layer here.
      for (int from : in[i]) items_[i].layer = std::max(items_[i].layer, items_[from].layer + 1);
    }
    // Boxes without predecessors are placed just above their successors.
    for (size_t i = boxes; i-- > 0;) {
      if (!in[i].empty() || out[i].empty()) continue;
      int nearest = items_[out[i].front()].layer;
      for (int to : out[i]) nearest = std::min(nearest, items_[to].layer);
      items_[i].layer = std::max(0, nearest - 1);
    }
    for (size_t i = 0; i < boxes; ++i) {
      layers_.resize(std::max<size_t>(layers_.size(), items_[i].layer + 1));
      layers_[items_[i].layer].push_back(static_cast<int>(i));
    }
  }

  void addBends() {
    int64_t bends = 0;
    for (size_t a = 0; a < graph_.arrows.size(); ++a) {
      if (drawn(a)) bends += items_[graph_.arrows[a].second].layer - items_[graph_.arrows[a].first].layer - 1;
    }
    paths_.resize(graph_.arrows.size());
    for (size_t a = 0; a < graph_.arrows.size(); ++a) {
      if (!drawn(a)) continue;
      const auto [from, to] = graph_.arrows[a];
      paths_[a].push_back(from);
      // One bend for each crossed layer, so that long arrows take part in ordering and spacing.
      for (int layer = items_[from].layer + 1; bends <= kMaxBends && layer < items_[to].layer; ++layer) {
        paths_[a].push_back(static_cast<int>(items_.size()));
        layers_[layer].push_back(static_cast<int>(items_.size()));
        Item& bend = items_.emplace_back();
        bend.layer = layer;
        bend.width = kBendWidth;
      }
      paths_[a].push_back(to);
      for (size_t i = 1; i < paths_[a].size(); ++i) {
        items_[paths_[a][i - 1]].down.push_back(paths_[a][i]);
        items_[paths_[a][i]].up.push_back(paths_[a][i - 1]);
      }
    }
  }

  template <typename Visit>
  void eachLayer(bool downward, Visit visit) {
    for (size_t i = 0; i < layers_.size(); ++i) visit(layers_[downward ? i : layers_.size() - 1 - i]);
  }

  /// Sorts each layer by the mean position of its neighbours in the previous layer (barycenter heuristic).
  void orderLayers(bool downward) {
    std::vector<double> rank(items_.size());
    for (const std::vector<int>& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) rank[layer[i]] = static_cast<double>(i);
    }
    eachLayer(downward, [&](std::vector<int>& layer) {
      std::vector<std::tuple<double, size_t, int>> keyed;  // a stable order for equal keys
      for (int item : layer) {
        const std::vector<int>& near = downward ? items_[item].up : items_[item].down;
        const double sum = std::accumulate(near.begin(), near.end(), 0.0,
                                           [&](double total, int other) { return total + rank[other]; });
        keyed.emplace_back(near.empty() ? rank[item] : sum / static_cast<double>(near.size()), keyed.size(), item);
      }
      std::sort(keyed.begin(), keyed.end());
      for (size_t i = 0; i < layer.size(); ++i) {
        layer[i] = std::get<int>(keyed[i]);
        rank[layer[i]] = static_cast<double>(i);
      }
    });
  }

  double distance(int left, int right) const { return (items_[left].width + items_[right].width) / 2 + kBetweenBoxes; }

  void pack(const std::vector<int>& layer) {
    for (size_t i = 1; i < layer.size(); ++i)
      items_[layer[i]].x = items_[layer[i - 1]].x + distance(layer[i - 1], layer[i]);
  }

  /// Moves each item as close as possible to the mean of its neighbours. After subtracting the minimum distances,
  /// keeping the order is a monotone regression, solved by merging adjacent violators.
  void alignLayers(bool downward) {
    eachLayer(downward, [&](const std::vector<int>& layer) {
      struct Block {
        double sum;
        int count;
        double mean() const { return sum / count; }
      };
      std::vector<Block> blocks;
      std::vector<double> offset(layer.size());
      for (size_t i = 0; i < layer.size(); ++i) {
        if (i > 0) offset[i] = offset[i - 1] + distance(layer[i - 1], layer[i]);
        const Item& item = items_[layer[i]];
        const std::vector<int>& near = downward ? item.up : item.down;
        double wanted = item.x;
        if (!near.empty()) {
          wanted = 0;
          for (int other : near) wanted += items_[other].x;
          wanted /= static_cast<double>(near.size());
        }
        blocks.push_back({wanted - offset[i], 1});
        // Pool adjacent violators: a block moves as one, to the mean of its members' wishes.
        while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
          blocks[blocks.size() - 2].sum += blocks.back().sum;
          blocks[blocks.size() - 2].count += blocks.back().count;
          blocks.pop_back();
        }
      }
      size_t next = 0;
      for (const Block& block : blocks) {
        for (int k = 0; k < block.count; ++k, ++next) items_[layer[next]].x = block.mean() + offset[next];
      }
    });
  }

  Placement place() {
    Placement placement;
    double left = 0;
    double right = 0;
    bool first = true;
    for (const Item& item : items_) {
      left = first ? item.x - item.width / 2 : std::min(left, item.x - item.width / 2);
      right = first ? item.x + item.width / 2 : std::max(right, item.x + item.width / 2);
      first = false;
    }
    std::vector<double> middle(layers_.size()), half(layers_.size());
    double top = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      double height = 0;
      for (int item : layers_[i]) height = std::max(height, items_[item].height);
      half[i] = height / 2;
      middle[i] = top + half[i];
      top += height + kBetweenLayers;
    }
    placement.width = right - left;
    placement.height = layers_.empty() ? 0 : top - kBetweenLayers;
    const auto at = [&](int item) { return Point{items_[item].x - left, middle[items_[item].layer]}; };
    for (size_t i = 0; i < graph_.boxes.size(); ++i) placement.centers.push_back(at(static_cast<int>(i)));
    placement.routes.resize(paths_.size());
    for (size_t a = 0; a < paths_.size(); ++a) {
      if (paths_[a].empty()) continue;
      for (int item : paths_[a]) {
        const Point point = at(item);
        if (item < static_cast<int>(graph_.boxes.size())) {
          placement.routes[a].push_back(point);
          continue;
        }
        // Vertical within the layer, past its boxes: a curve would cross their corners.
        placement.routes[a].push_back({point.x, point.y - half[items_[item].layer]});
        placement.routes[a].push_back({point.x, point.y + half[items_[item].layer]});
      }
      placement.routes[a].front().y += items_[paths_[a].front()].height / 2;
      placement.routes[a].back().y -= items_[paths_[a].back()].height / 2;
    }
    return placement;
  }

  const BoxGraph& graph_;
  std::vector<Item> items_;  // boxes precede bends
  std::vector<std::vector<int>> layers_;
  std::vector<std::vector<int>> paths_;  // items on the path of each arrow
};

}  // namespace

Placement placeLayers(const BoxGraph& graph) { return Layering(graph).run(); }

}  // namespace tessera::client
