#pragma once

#include <cstdint>

/// Limits on a model. A model is untrusted: each limit is checked before memory is spent.
namespace tessera::compiler::limits {

inline constexpr int64_t kModelBytes = (int64_t{1} << 31) - 1;   ///< protobuf's own limit; further weights are external
inline constexpr int64_t kNodes = 200'000;                       ///< of all graphs together, functions expanded
inline constexpr int64_t kFields = 40'000'000;                   ///< protobuf fields of the whole file
inline constexpr int64_t kMessages = 4'000'000;                  ///< protobuf messages and strings of the whole file
inline constexpr int64_t kPackedVarintBytes = int64_t{1} << 26;  ///< they grow eightfold in memory; raw_data does not
inline constexpr int64_t kMaxIterationsWithoutTripCount = 1024;  ///< of a loop with a run-time condition and without a
                                                                 ///< trip count
inline constexpr int kGraphNesting = 24;                         ///< subgraphs within subgraphs
inline constexpr int kMessageNesting = 96;                       ///< protobuf's parser recurses; it stops at 100
inline constexpr int kFunctionNesting = 16;                      ///< model-local functions calling each other
inline constexpr int kRank = 16;
inline constexpr int64_t kTensorElements = int64_t{1} << 31;
inline constexpr int64_t kTensorBytes = int64_t{1} << 33;
inline constexpr int64_t kSparseBytes = int64_t{1} << 28;  ///< of all sparse tensors of a model, made dense
inline constexpr int64_t kFoldedElements = 1 << 16;        ///< larger constants are computed at run time
inline constexpr int64_t kFoldedSteps = 1 << 24;           ///< scalar operations folded in one import
inline constexpr int64_t kFoldedStepsOfNode = 1 << 22;
inline constexpr int64_t kSmallFold = 1 << 10;         ///< elements of a node's inputs up to which they count as small
inline constexpr int64_t kInlineConstantBytes = 1024;  ///< larger constants are weights
inline constexpr int64_t kFixedInputBytes = 1 << 16;   ///< of one input whose value is given for compilation
inline constexpr int64_t kSequenceLength = 1024;       ///< tensors of a sequence: operators that change it copy it
inline constexpr int kListedFaults = 20;               ///< unsupported operators named in one message
inline constexpr int kReportedProblems = 10'000;       ///< of a model that is checked

}  // namespace tessera::compiler::limits
