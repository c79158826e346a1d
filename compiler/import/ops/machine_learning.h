#pragma once

#include "compiler/import/node.h"
#include "compiler/import/operator.h"

/// Shared by the operators of ai.onnx.ml: classical estimators, which work on rows of features.
namespace tessera::compiler {

/// The labels of classes, in the order of their scores. String labels are refused.
struct ClassLabels {
  std::vector<int64_t> values = {};
};

/// `integers`, `strings`: the names of two attributes; a model gives one of them.
absl::StatusOr<ClassLabels> classLabels(Node& n, const std::string& integers, const std::string& strings);

/// Returns the label (i64) of each class number in `chosen`: bool (second of two classes) or i64.
Tensor labelOf(Emitter& e, const ClassLabels& labels, const Tensor& chosen);

/// Returns the position (i64) of the greatest score of each row; the first among equals.
Tensor greatest(Emitter& e, const Tensor& scores);

enum class PostTransform { kNone, kLogistic, kSoftmax, kSoftmaxZero, kProbit };

absl::StatusOr<PostTransform> postTransform(Node& n);  ///< of the attribute post_transform

/// Transforms scores (rows x scores).
Tensor transformed(Emitter& e, const Tensor& scores, PostTransform transform);

/// Computes the scores of two classes from that of the second one. `probabilities`: the first class has 1 minus that
/// score.
Tensor scoresOfBoth(Emitter& e, const Tensor& second, bool probabilities, PostTransform transform);

/// Returns the rows of features in an estimator's arithmetic type: f32, or f64 if input 0 is f64. A rank 1 input is one
/// row.
absl::StatusOr<Tensor> featureRows(Node& n, Emitter& e);

/// Returns an error that states how many elements an attribute should have.
absl::Status differentCounts(const Node& n, const std::string& attribute, size_t found, size_t wanted);

/// Declares operators of ai.onnx.ml. Rows are independent, so their number may be bounded.
std::vector<Operator> ofRows(std::vector<Operator> operators);

inline constexpr TypeSet kFeatures = static_cast<TypeSet>(kFloats | kSigned);

}  // namespace tessera::compiler
