#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

struct WeightDerivation;  // graph/constants/weight_derivation.h

/// Bytes of a constant: a view into a mapped file, kept alive by `owner`, or bytes that the importer computed.
struct Weight {
  v1::TensorSpec spec;
  std::string_view bytes;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const WeightDerivation> derivation = nullptr;  ///< computes the bytes, which may be absent then
  int prepared = -1;  ///< position among the plan's prepared weights; -1: the artifact stores the bytes
};

/// A dimension of an output whose extent the module computes.
struct OutputExtent {
  int output;
  int dimension;
};

/// A model as linalg on tensors with static shapes.
///
/// The module has one public function @main. Its arguments are the model's inputs, then its weights; its results are
/// the model's outputs. An input argument has the attribute `tessera.input = "name"`, a weight argument `tessera.weight
/// = <index into weights> : i64`, a result `tessera.output = "name"`. Constants of at most 1 KiB (and every scalar) are
/// arith.constant instead of weights.
///
/// Output dimensions whose size only a run decides are in the outputs' bounded_dims, and the shape holds their bound.
/// For each entry of `extents` @main has one more result after the outputs, a tensor<i64>. A dimension that is a range
/// has its bound in the shapes and is in the bounded_dims of the inputs. Its size is one more argument of @main after
/// the model's inputs, a tensor<i64> with the range's name; several are in the order of `dimensions`. Every operator
/// between there and the outputs keeps elements beyond the size separate (compiler/import/bounded_dimensions.h), or the
/// model is refused.
///
/// If there are `run_faults`, @main has one more result, the last: a tensor<i64> that is 0, or the position in
/// `run_faults` + 1 of the run's error.
///
/// Each operation's location is a NameLoc with the name of its graph node. Booleans are i1 inside the module, but i8 in
/// inputs, outputs and weights.
struct ImportedModel {
  /// A node of the model's graph. Values are identified by name; types are those that the importer computed.
  struct Node {
    std::string name;
    std::string op_type;
    std::vector<v1::TensorSpec> inputs;  ///< including constants; with the model's names
    std::vector<v1::TensorSpec> outputs;
    std::vector<mlir::Operation*> became;  ///< operations of @main, valid until a rewrite
  };

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<v1::TensorSpec> inputs;
  std::vector<v1::TensorSpec> outputs;
  std::vector<Weight> weights;
  std::vector<OutputExtent> extents;             ///< by output, then dimension
  std::vector<std::string> run_faults;           ///< errors that a run finds while it computes
  std::vector<v1::TensorValue> fixed_inputs;     ///< inputs that became constants; their arguments are unused
  std::vector<v1::TensorValue> default_inputs;   ///< inputs that a run may omit, with their default values
  std::vector<v1::DimensionBinding> dimensions;  ///< the inputs' symbolic dimensions, in order of first appearance
  std::vector<v1::RefusedSizes> refused_sizes;   ///< of ranges
  std::map<std::string, int64_t> least;          ///< least size of a range in runs, where it is not 1
  int nodes = 0;
  std::vector<Node> graph;  ///< with ImportOptions.record_nodes, for ONNX: in execution order
};

}  // namespace tessera::compiler
