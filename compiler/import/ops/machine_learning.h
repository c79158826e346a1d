#pragma once

#include "compiler/import/node.h"
#include "compiler/import/operator.h"

/// Shared by the operators of ai.onnx.ml: classical estimators, which work on rows of features.
namespace tessera::compiler {

/// The labels of classes, in the order of their scores. Labels that are strings are refused.
struct ClassLabels {
  std::vector<int64_t> values = {};
};

/// `integers`, `strings`: names of the attributes, of which one is given.
absl::StatusOr<ClassLabels> classLabels(Node& n, const std::string& integers, const std::string& strings);

/// The label (i64) of each class number in `chosen`: bool (second class of two) or i64.
Tensor labelOf(Emitter& e, const ClassLabels& labels, const Tensor& chosen);

/// The number (i64) of the greatest score of each row; the first of equal ones.
Tensor greatest(Emitter& e, const Tensor& scores);

enum class PostTransform { kNone, kLogistic, kSoftmax, kSoftmaxZero, kProbit };

absl::StatusOr<PostTransform> postTransform(Node& n);  ///< of the attribute post_transform, a word

/// Scores of rows (rows x scores), transformed.
Tensor transformed(Emitter& e, const Tensor& scores, PostTransform transform);

/// Scores of two classes by that of the second one. `probabilities`: the score is one, so that the first class has the
/// rest of 1.
Tensor scoresOfBoth(Emitter& e, const Tensor& second, bool probabilities, PostTransform transform);

/// Rows of features as an estimator computes with them: f32, or f64 where input 0 is; one row where it has rank 1.
absl::StatusOr<Tensor> featureRows(Node& n, Emitter& e);

/// An error that says how many elements an attribute should have.
absl::Status differentCounts(const Node& n, const std::string& attribute, size_t found, size_t wanted);

/// Operators of ai.onnx.ml: rows are independent, so that their number may follow a range.
std::vector<Operator> ofRows(std::vector<Operator> operators);

inline constexpr TypeSet kFeatures = static_cast<TypeSet>(kFloats | kSigned);

}  // namespace tessera::compiler
