#pragma once

#include <climits>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/bounded.h"

namespace tessera::compiler {

using Results = absl::StatusOr<std::vector<Tensor>>;

/// Emits one node. Inputs were counted and their types checked by the table entry; the function checks
/// attributes and shapes and gives one tensor per output the operator has (surplus ones are dropped).
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
  int since = 1;       ///< first operator set version this entry is right for
  int min_inputs = 1;  ///< the first so many must be given
  int max_inputs = 1;  ///< kVariadic for any number
  Lowering lower = nullptr;
  TypeSet types = kAll;  ///< what input 0 may be
  int same = 1;          ///< the first so many inputs have the type of input 0
  int until = INT_MAX;   ///< last version this entry is right for
  const char* domain = "";
  ExtentRule extents = nullptr;  ///< none: every extent must be known at compile time
  const char* family = "";       ///< filled in by allOperators()
};

/// The operators with a rule for extents known at run time, but for those that have one already.
std::vector<Operator> withExtents(ExtentRule rule, std::vector<Operator> operators);

/// The entry for an operator in an operator set version; null when there is none.
const Operator* findOperator(std::string_view domain, std::string_view name, int64_t version);

/// Whether some version of the operator is known.
bool knowsOperator(std::string_view domain, std::string_view name);

/// Whether inputs may be sequences; what takes tensors alone reads their elements unasked.
bool takesSequences(const Operator& op);

/// Every entry, for documentation and tests.
const std::vector<Operator>& allOperators();

/// "floating point, signed integers": the members of a set, for messages.
std::string typeSetText(TypeSet types);
bool contains(TypeSet types, v1::DataType type);

/// The families of ops/, each its own table.
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
