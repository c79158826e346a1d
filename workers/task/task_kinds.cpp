#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

constexpr TaskKindEntry kKinds[] = {
    {v1::PLAN, Profile::kCompile, v1::TaskSpec::kPlan, runPlanTask},
    {v1::BUILD, Profile::kCompile, v1::TaskSpec::kBuild, runBuildTask},
    {v1::ASSEMBLE, Profile::kCompile, v1::TaskSpec::kAssemble, runAssembleTask},
    {v1::EXECUTE, Profile::kExecute, v1::TaskSpec::kExecute, runExecuteTask},
    {v1::PROFILE, Profile::kExecute, v1::TaskSpec::kProfile, runProfileTask},
    {v1::ANALYZE, Profile::kCompile, v1::TaskSpec::kAnalyze, runAnalyzeTask},
    {v1::SEARCH, Profile::kCompile, v1::TaskSpec::kSearch, runSearchTask},
    {v1::MEASURE, Profile::kExecute, v1::TaskSpec::kMeasure, runMeasureTask},
};

}  // namespace

const TaskKindEntry* findTaskKind(v1::TaskKind kind) {
  for (const TaskKindEntry& entry : kKinds) {
    if (entry.kind == kind) return &entry;
  }
  return nullptr;
}

}  // namespace tessera::worker
