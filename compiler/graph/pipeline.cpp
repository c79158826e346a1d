#include "compiler/graph/pipeline.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "compiler/graph/analysis/used_rows.h"
#include "mlir/IR/OperationSupport.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// When a step of the pipeline runs.
enum class When {
  kAlways,
  kIfChanged,      ///< the last step before it that is not kIfChanged changed the graph
  kRoundProducts,  ///< GraphOptions.round_products, or the chip's instructions multiply no f32
  kRegisterTiles,  ///< CodeFacts.register_tiles
  kWinograd,       ///< kRegisterTiles and GraphOptions.winograd
};

struct Step {
  const char* pass = nullptr;  ///< of graphPasses(), or kCleanUp
  const char* reason = nullptr;
  When when = When::kAlways;
};

/// Dead code, duplicates and canonical form; skipped where the graph is as the last clean-up left it.
constexpr char kCleanUp[] = "clean-up";

constexpr Step kPipeline[] = {
    // Normal form.
    {"generalize-named-ops", "all other passes read linalg.generic"},
    {"hoist-from-loops", "the rest of the pipeline sees what loops share as part of @main"},
    {kCleanUp, "imported graphs repeat shape arithmetic"},
    {"recognize-concat", "later passes treat a concatenation as one operation"},
    {"nest-concats", "after concatenations are known"},
    {"drop-unit-broadcasts", "before fusion compares access functions"},

    // Element types, before constants are folded: folding would double weights of 16 bits and quadruple those of 8.
    {"sum-halves-in-single", "decides the type of accumulators"},
    {"widen-on-load", "after it: removes the conversions that it left between operations"},
    {"narrow-products", "finds quantized operands while their conversions are still there"},
    {kCleanUp, "removes the conversions that lost their readers"},
    {"fold-constants", "weights get their final element type"},
    {"eliminate-casts", "folding may leave conversions between activations"},
    {"simplify-algebra", "folded constants may be neutral elements"},
    {"simplify-movement", "before windows are analysed, which may read paddings"},
    {"drop-idle-taps", "needs paddings next to their windows"},
    {"keep-busy-taps", "needs folded weights", When::kRegisterTiles},
    {kCleanUp, "before fusion: a dead reader would prevent it"},

    // Elementwise fusion. Views move past plain products first, so that the operations after a view are found; after
    // packing they move once more.
    {"fuse-elementwise", "shortens what follows a product to one operation"},
    {"hoist-elementwise", "moves that operation to the product"},
    {"fold-constants", "hoisting moves constants as well", When::kIfChanged},
    {"sink-views", "brings operations after views next to the product"},
    {"fuse-elementwise", "merges what sink-views brought together"},
    {"split-elementwise-of-concat", "an operation on a part can join the producer of the part"},
    {"fuse-elementwise", "merges the parts' operations into their producers"},
    {"fold-scales", "needs the factor in the product's only reader"},
    {"eliminate-casts", "fusion brought conversions together in one body"},
    {"simplify-algebra", "fusion brought signs and constants together in one body"},
    {"simplify-movement", "fusion removed operations between movements"},
    {kCleanUp, "equal operands become one value, which merge-products looks for"},
    {"fold-constants", "computes scaled weights"},
    {"merge-products", "before layouts: the merged weights are packed as one"},
    {"stack-products", "the same for products of slices"},
    {"fold-constants", "concatenates the merged weights"},
    {"absorb-transposes", "before layouts, which fix the order of dimensions"},

    // Requested rounding. Conversions meet their readers before equal conversions become one, which would be a copy.
    {"round-products", "once all products are final", When::kRoundProducts},
    {"remove-dead-code", "removes unrounded operands", When::kIfChanged},
    {"widen-on-load", "moves conversions into their readers", When::kIfChanged},
    {"fuse-elementwise", "merges conversions into producers", When::kIfChanged},
    {"fold-constants", "rounds weights", When::kIfChanged},

    // Layouts come before packing: a product after a flattened activation gets its rows in the activation's order, then
    // panels.
    {"assign-layouts", "once products and convolutions are final", When::kRegisterTiles},
    {"narrow-pads", "blocked layouts add dimensions of extent one", When::kRegisterTiles},
    {kCleanUp, "removes layout transforms that cancel"},
    {"fold-constants", "lays out weights"},
    {"pack-matmuls", "after layouts", When::kRegisterTiles},
    {"fold-constants", "packs weights"},
    {"widen-products", "reads packed weights; before interleaving, which it replaces", When::kRegisterTiles},
    {"interleave-bytes", "reads packed panels", When::kRegisterTiles},
    {"multiply-exactly-in-single", "for the products of 8 bits that no instruction takes", When::kRegisterTiles},
    {"sink-views", "moves views past the packed products"},
    {"fold-constants", "interleaves weights"},
    {"fuse-elementwise", "merges what sink-views brought together"},
    {"count-layout-transforms", "before Winograd's stages, which look like transforms", When::kRegisterTiles},
    {kCleanUp, "before Winograd, which matches convolutions with their paddings"},

    {"winograd", "needs blocked layouts", When::kWinograd},
    {"cut-behind-followers", "lets elementwise operations join a stage", When::kWinograd},
    {"fold-constants", "transforms filters", When::kWinograd},
    {"interleave-halves", "after Winograd, which computes in f32", When::kRegisterTiles},
    {"fold-constants", "interleaves weights", When::kIfChanged},
    {kCleanUp, "removes copies of interleaved activations", When::kIfChanged},

    // Shapes of the loops that are left.
    {"compare-positions", "masks are constants by now"},
    {"share-pads", "once readers of paddings are final"},
    {"align-slices", "after share-pads", When::kRegisterTiles},
    {"split-sums", "weighs the parallelism of the final products", When::kRegisterTiles},
    {"split-long-sums", "the sums that split-sums left whole", When::kRegisterTiles},
    {"cut-bodies", "bodies grow no more", When::kRegisterTiles},
    {"cut-wide-splits", "equal readers become one workload"},
    {"cut-wide-concats", "the same for concatenations"},
    {"share-bodies", "last: its operands would hide constants from other passes"},
    {"constants-to-weights", "kernels contain no large constants"},
    {"mark-narrow-pairs", "reads the final weights", When::kRegisterTiles},
};

class Runner {
 public:
  Runner(PassState& state, const GraphOptions& options, PassRecorder& recorder)
      : state_(state),
        options_(options),
        recorder_(recorder),
        ranges_(state.model != nullptr && hasRanges(*state.model)) {}

  absl::Status run() {
    int changes = 0;  // of the last step that is not kIfChanged
    for (const Step& step : kPipeline) {
      if (!runs(step.when, changes)) {
        if (step.when != When::kIfChanged) changes = 0;
        continue;
      }
      if (step.pass == std::string_view(kCleanUp)) {
        TESSERA_RETURN_IF_ERROR(cleanUp());
        continue;
      }
      TESSERA_ASSIGN_OR_RETURN(const int done, runPass(graphPass(step.pass)));
      if (step.when != When::kIfChanged) changes = done;
    }
    return absl::OkStatus();
  }

 private:
  bool runs(When when, int changes) const {
    switch (when) {
      case When::kIfChanged:
        return changes > 0;
      case When::kRoundProducts:
        return options_.round_products || options_.code.factors != v1::DATA_TYPE_UNSPECIFIED;
      case When::kRegisterTiles:
        return options_.code.register_tiles;
      case When::kWinograd:
        return options_.code.register_tiles && options_.winograd;
      case When::kAlways:
        return true;
    }
  }

  absl::StatusOr<int> runPass(const GraphPass& pass) {
    if (ranges_ && (pass.properties & GraphPass::kStaticShapes) != 0) return 0;
    TESSERA_ASSIGN_OR_RETURN(const int changes, pass.run(state_));
    TESSERA_RETURN_IF_ERROR(recorder_.ran(pass, changes));
    return changes;
  }

  absl::Status cleanUp() {
    const mlir::OperationFingerPrint before(state_.main);
    recorder_.finished("fingerprint");
    if (clean_ == before) return absl::OkStatus();
    for (const char* pass : {"remove-dead-code", "eliminate-duplicates", "canonicalize"})
      TESSERA_RETURN_IF_ERROR(runPass(graphPass(pass)).status());
    if (mlir::OperationFingerPrint(state_.main) == before) clean_ = before;
    return absl::OkStatus();
  }

  PassState& state_;
  const GraphOptions& options_;
  PassRecorder& recorder_;
  const bool ranges_;
  std::optional<mlir::OperationFingerPrint> clean_;  // of the graph, when a clean-up last changed nothing
};

}  // namespace

absl::Status PassRecorder::ran(const GraphPass& pass, int changes) {
  finished(pass.reported);
  if (changes == 0) return absl::OkStatus();
  if ((pass.properties & GraphPass::kUncounted) == 0) {
    auto known = std::ranges::find_if(rewrites_, [&](const auto& each) { return each.name() == pass.reported; });
    if (known == rewrites_.end()) {
      rewrites_.emplace_back().set_name(pass.reported);
      known = std::prev(rewrites_.end());
    }
    known->set_count(known->count() + changes);
  }
  if (options_.observer == nullptr) return absl::OkStatus();
  return (pass.properties & GraphPass::kRounds) != 0 ? options_.observer->resultsChanged(pass.reported, model_)
                                                     : options_.observer->rewritten(pass.reported, model_);
}

absl::Status runPipeline(PassState& state, const GraphOptions& options, PassRecorder& recorder) {
  return Runner(state, options, recorder).run();
}

}  // namespace tessera::compiler
