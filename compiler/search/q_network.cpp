#include "compiler/search/q_network.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/search/draw.h"

namespace tessera::compiler::search {
namespace {

using Matrix = Eigen::MatrixXf;

constexpr int kWidth = 64;
constexpr size_t kDepth = 4;
constexpr float kRho = 0.95F, kEpsilon = 1e-6F;

/// Parameters with AdaDelta's running means of squared gradients and squared steps.
struct Parameters {
  Matrix value, gradients, steps;

  void allocate(int rows, int columns) {
    value = Matrix::Zero(rows, columns);
    gradients = Matrix::Zero(rows, columns);
    steps = Matrix::Zero(rows, columns);
  }
  void descend(const Matrix& gradient) {
    gradients = kRho * gradients + (1 - kRho) * gradient.cwiseAbs2();
    const Matrix step = ((steps.array() + kEpsilon).sqrt() / (gradients.array() + kEpsilon).sqrt()) * gradient.array();
    steps = kRho * steps + (1 - kRho) * step.cwiseAbs2();
    value -= step;
  }
};

struct Network {
  std::array<Parameters, kDepth> weights, biases;

  /// One column per point; stores the inputs of the layers in `inputs` unless it is null.
  Matrix forward(const Matrix& points, std::array<Matrix, kDepth>* inputs) const {
    Matrix current = points;
    for (size_t layer = 0; layer < kDepth; ++layer) {
      if (inputs != nullptr) (*inputs)[layer] = current;
      Matrix next = weights[layer].value * current;
      next.colwise() += Eigen::VectorXf(biases[layer].value.col(0));
      current = layer + 1 < kDepth ? Matrix(next.cwiseMax(0.F)) : next;
    }
    return current;
  }
};

Matrix columns(const std::vector<const Features*>& points) {
  Matrix all(static_cast<Eigen::Index>(featureCount()), static_cast<Eigen::Index>(points.size()));
  for (size_t at = 0; at < points.size(); ++at)
    all.col(static_cast<Eigen::Index>(at)) =
        Eigen::Map<const Eigen::VectorXf>(points[at]->data(), static_cast<Eigen::Index>(points[at]->size()));
  return all;
}

}  // namespace

struct QNetwork::Layers {
  Network online, behind;
  int passes = 0;
};

QNetwork::QNetwork(int actions, double expected, uint64_t seed) : layers_(std::make_unique<Layers>()) {
  std::mt19937_64 random(seed);
  const std::array<int, kDepth + 1> sizes = {static_cast<int>(featureCount()), kWidth, kWidth, kWidth, actions};
  for (size_t layer = 0; layer < kDepth; ++layer) {
    Matrix& weights = layers_->online.weights[layer].value;
    layers_->online.weights[layer].allocate(sizes[layer + 1], sizes[layer]);
    layers_->online.biases[layer].allocate(sizes[layer + 1], 1);
    // He initialization, with a small last layer so that all untrained outputs are about equal.
    const double scale = std::sqrt(6.0 / sizes[layer]) * (layer + 1 < kDepth ? 1 : 0.05);
    for (Eigen::Index at = 0; at < weights.size(); ++at)
      weights.data()[at] = static_cast<float>(scale * (2 * share(random) - 1));
  }
  layers_->online.biases[kDepth - 1].value.setConstant(static_cast<float>(expected));
  layers_->behind = layers_->online;
}

QNetwork::~QNetwork() = default;
QNetwork::QNetwork(QNetwork&&) noexcept = default;

std::vector<float> QNetwork::values(const Features& point) const {
  const Matrix answer = layers_->online.forward(columns({&point}), nullptr);
  return {answer.data(), answer.data() + answer.size()};
}

double QNetwork::train(const std::vector<const Transition*>& batch) {
  if (batch.empty()) return 0;
  std::vector<const Features*> from, to;
  for (const Transition* each : batch) {
    from.push_back(&each->from);
    to.push_back(&each->to);
  }
  Network& online = layers_->online;
  std::array<Matrix, kDepth> inputs;
  const Matrix reached = layers_->behind.forward(columns(to), nullptr);
  const Matrix known = online.forward(columns(from), &inputs);
  // Only the direction that was taken contributes to the error.
  Matrix error = Matrix::Zero(known.rows(), known.cols());
  double sum = 0;
  for (size_t at = 0; at < batch.size(); ++at) {
    const auto column = static_cast<Eigen::Index>(at);
    double best = 0;
    if (!batch[at]->open.empty()) {
      best = -HUGE_VAL;
      for (const int action : batch[at]->open) best = std::max(best, static_cast<double>(reached(action, column)));
    }
    const double target = kDiscount * best + batch[at]->reward;
    const double off = known(batch[at]->action, column) - target;
    error(batch[at]->action, column) = static_cast<float>(2 * off / static_cast<double>(batch.size()));
    sum += off * off;
  }
  for (size_t layer = kDepth; layer-- > 0;) {
    const Matrix weights_gradient = error * inputs[layer].transpose();
    const Matrix biases_gradient = error.rowwise().sum();
    if (layer > 0) {
      const Matrix back = online.weights[layer].value.transpose() * error;
      error = (inputs[layer].array() > 0).select(back, 0.F);
    }
    online.weights[layer].descend(weights_gradient);
    online.biases[layer].descend(biases_gradient);
  }
  if (++layers_->passes % kSync == 0) layers_->behind = layers_->online;
  return sum / static_cast<double>(batch.size());
}

}  // namespace tessera::compiler::search
