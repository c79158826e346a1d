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

/// Bytes of a constant. Either a view into a mapped file, kept alive by `owner`, or bytes the importer computed.
struct Weight {
  v1::TensorSpec spec;
  std::string_view bytes;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const WeightDerivation> derivation = nullptr;  ///< computes the bytes, which may then be missing
  int prepared = -1;  ///< position among the plan's prepared weights; -1: the artifact stores the bytes
};

/// A dimension of an output whose extent the module computes.
struct OutputExtent {
  int output;
  int dimension;
};

/// A model as linalg on tensors, static shapes throughout.
///
/// The module has one public function @main. Its arguments are the model's inputs, then its weights;
/// results are the model's outputs. An input argument has the attribute `tessera.input = "name"`, a weight
/// argument `tessera.weight = <index into weights> : i64`, a result `tessera.output = "name"`.
/// Constants of at most 1 KiB (and every scalar) are arith.constant instead of weights.
/// Dimensions of outputs that are known after a run only are in their bounded_dims; for each entry of `extents` @main
/// has one more result behind the outputs, a tensor<i64>. Such an output is laid out for its upper bounds.
/// A dimension that is a range has its greatest size in the shapes and is in the bounded_dims of the inputs. Behind the
/// model's inputs comes one more of its name, tensor<i64>: how many count; those of several in the order of
/// `dimensions`. Every operator on the way from there to the outputs leaves elements beyond it apart from the others
/// (compiler/import/bounded.h), or the model is refused. Each operation's location is a NameLoc with the name of the
/// graph node it stems from. Booleans are i1 in tensors inside the module's arithmetic but i8 at the border (inputs,
/// outputs, weights).
struct ImportedModel {
  /// A node of the model's own graph. Values go by name; types are those the importer computed.
  struct Node {
    std::string name;
    std::string op_type;
    std::vector<v1::TensorSpec> inputs;  ///< constants included; names are the model's
    std::vector<v1::TensorSpec> outputs;
    std::vector<mlir::Operation*> became;  ///< operations of @main, as long as nothing has rewritten it
  };

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<v1::TensorSpec> inputs;
  std::vector<v1::TensorSpec> outputs;
  std::vector<Weight> weights;
  std::vector<OutputExtent> extents;             ///< by output, then dimension
  std::vector<v1::TensorValue> fixed_inputs;     ///< inputs that were taken as constants; their arguments are unused
  std::vector<v1::TensorValue> default_inputs;   ///< inputs that a run may leave out, with their values then
  std::vector<v1::DimensionBinding> dimensions;  ///< the inputs' symbolic dimensions, in the order they are named
  std::vector<v1::RefusedSizes> refused_sizes;   ///< of dimensions that are ranges
  std::map<std::string, int64_t> least;          ///< of such a dimension what runs have at least, where it is not 1
  int nodes = 0;
  std::vector<Node> graph;  ///< with ImportOptions.record_nodes, for ONNX: in the order in which they run
};

}  // namespace tessera::compiler
