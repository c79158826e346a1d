#pragma once

#include <climits>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/bounded_dimensions.h"

namespace tessera::compiler {

using Results = absl::StatusOr<std::vector<Tensor>>;

/// Lowers one node. The number and types of its inputs match the table entry. The function checks attributes and shapes
/// and returns one tensor per output of the operator; surplus ones are dropped.
using Lowering = Results (*)(Node& node, Emitter& e);

/// Sets of element types.
enum TypeSet : unsigned {
  kFloats = 1,
  kSigned = 2,
  kUnsigned = 4,
  kBool = 8,
  kIntegers = kSigned | kUnsigned,
  kNumbers = kFloats | kIntegers,
  kAll = kNumbers | kBool,
  kNarrow = 16,  ///< types that are stored only (element_type.h)
  kStored = kAll | kNarrow,
};

inline constexpr const char* kMicrosoft = "com.microsoft";     ///< the domain of ONNX Runtime's own operators
inline constexpr const char* kMachineLearning = "ai.onnx.ml";  ///< the domain of ONNX's classical estimators

inline constexpr int kVariadic = INT_MAX;

/// The newest operator set version of the default domain that models may import.
inline constexpr int kNewestOpset = 27;
/// The newest version of kMachineLearning.
inline constexpr int kNewestMachineLearning = 5;

/// An ONNX operator as the importer knows it: one line of a family's table in ops/.
struct Operator {
  const char* name = "";
  int since = 1;       ///< first operator set version of this entry
  int min_inputs = 1;  ///< leading inputs that must be given
  int max_inputs = 1;  ///< kVariadic for any number
  Lowering lower = nullptr;
  TypeSet types = kAll;  ///< accepted types of input 0
  int same = 1;          ///< leading inputs that have the type of input 0
  int until = INT_MAX;   ///< last version of this entry
  const char* domain = "";
  ExtentRule extents = nullptr;  ///< null: no dimension may be bounded
  const char* family = "";       ///< filled in by allOperators()
};

/// Returns the operators with `rule` set where they have no rule for extents yet.
std::vector<Operator> withExtents(ExtentRule rule, std::vector<Operator> operators);

/// Returns the entry for an operator in an operator set version; null if there is none.
const Operator* findOperator(std::string_view domain, std::string_view name, int64_t version);

/// Whether any version of the operator is known.
bool knowsOperator(std::string_view domain, std::string_view name);

/// Whether inputs may be sequences. Other lowerings read the elements of inputs without checking for sequences.
bool takesSequences(const Operator& op);

/// Returns every entry, for documentation and tests.
const std::vector<Operator>& allOperators();

/// Returns the members of a set for messages: "floating point, signed integers".
std::string typeSetText(TypeSet types);
bool contains(TypeSet types, v1::DataType type);

/// The families of ops/, each with its own table.
std::vector<Operator> elementwiseOperators();
std::vector<Operator> activationOperators();
std::vector<Operator> convolutionOperators();
std::vector<Operator> deformableConvolutionOperators();
std::vector<Operator> matmulOperators();
std::vector<Operator> normalizationOperators();
std::vector<Operator> poolingOperators();
std::vector<Operator> reductionOperators();
std::vector<Operator> shapeOperators();
std::vector<Operator> sliceOperators();
std::vector<Operator> gatherOperators();
std::vector<Operator> constantOperators();
std::vector<Operator> lossOperators();
std::vector<Operator> resizeOperators();
std::vector<Operator> accumulationOperators();
std::vector<Operator> selectionOperators();
std::vector<Operator> einsumOperators();
std::vector<Operator> samplingOperators();
std::vector<Operator> roiOperators();
std::vector<Operator> determinantOperators();
std::vector<Operator> signalOperators();
std::vector<Operator> quantizedOperators();
std::vector<Operator> scatterOperators();
std::vector<Operator> orderOperators();
std::vector<Operator> recurrentOperators();
std::vector<Operator> controlFlowOperators();
std::vector<Operator> dataDependentOperators();
std::vector<Operator> suppressionOperators();
std::vector<Operator> uniqueOperators();
std::vector<Operator> textOperators();
std::vector<Operator> sequenceOperators();
std::vector<Operator> attentionOperators();
std::vector<Operator> flexAttentionOperators();
std::vector<Operator> rotaryEmbeddingOperators();
std::vector<Operator> linearAttentionOperators();
std::vector<Operator> layerNormalizationOperators();
std::vector<Operator> imageOperators();
std::vector<Operator> microsoftOperators();
std::vector<Operator> blockQuantizedOperators();
std::vector<Operator> groupQueryAttentionOperators();
std::vector<Operator> microsoftAttentionOperators();
std::vector<Operator> microsoftQuantizedOperators();
std::vector<Operator> treeOperators();
std::vector<Operator> estimatorOperators();
std::vector<Operator> featureOperators();

}  // namespace tessera::compiler
