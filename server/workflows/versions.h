#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// The artifact of a tune job as it grows (thesis, 4.6.3). Whenever trees were confirmed since the newest version, the
/// model is compiled with all of them and run in turns with the default: a version that is right and no slower than the
/// one before is published. Else the trees that are to blame are dropped, one by one, and the rest is tried again. The
/// mode says when: ASYNC at once while the searches go on, SYNC when all of them have had a phase, STATIC when all are
/// over.
namespace tessera::server {

/// Versions of a job that a choice adds to: each is a row that stays as long as the job.
inline constexpr int kMostVersions = 1000;

/// Of a new tune job, with the mode that it asks for.
absl::Status beginSeries(Step& step, const v1::Job& job, v1::TuneMode mode);

/// The default is compiled: the first version, unless programs are to wait for the last one.
absl::Status defaultCompiled(Step& step, const v1::Action& tune);

/// The choices that were taken are faster than the default, as they were compared: the next version.
absl::Status choicesConfirmed(Step& step, v1::Action& tune, const v1::MeasureTaskResult& result);

/// Whether trees are wanted before the searches are over.
absl::StatusOr<bool> takesTreesEarly(Step& step, const std::string& tune_id);

/// How many of the `waiting` searches may get their turn: `open` of them; of a SYNC job all at once, and none while
/// others are at it, choices are tried or a version is made.
absl::StatusOr<int> searchesToDispatch(Step& step, const v1::Action& tune, int waiting, int open);

/// A search of the job has confirmed a tree. publishNextVersion() makes a version of it.
absl::Status treeConfirmed(Step& step, const std::string& tune_id, const std::string& workload_hash,
                           const v1::Schedule& schedule, double speed);

/// Begins the next version where there is something new and the mode allows; ends the job when no search goes on and
/// nothing is left to try.
absl::Status publishNextVersion(Step& step, const std::string& tune_id);

/// The model is compiled with the trees that are tried: `action.result` names it.
absl::Status versionAssembled(Step& step, v1::Action& action);

/// A MEASURE task of the version that is made is DONE.
absl::Status versionMeasured(Step& step, v1::Action& action, const v1::Task& task);

/// It could not be compiled or run.
absl::Status versionFailed(Step& step, v1::Action& action, const v1::Failure& failure);

/// The job ends with what it has: that is its version if there was none yet.
absl::Status publishUnlessPublished(Step& step, const v1::Action& tune);

/// What a run of the job's artifact runs: of a TUNE job the version that is asked for, with 0 the one that programs
/// should run now; of a COMPILE job its artifact, as version 0. FAILED_PRECONDITION: there is none yet, or no more.
absl::StatusOr<v1::ArtifactVersion> versionToRun(storage::Reader& reader, const v1::Job& job, int number);

/// Makes an earlier version the newest one, or, with 0, lets programs follow the job again. None is added where
/// programs run that one already. NOT_FOUND: no such version. FAILED_PRECONDITION: its artifact is not there any more.
/// RESOURCE_EXHAUSTED: the job has kMostVersions.
absl::StatusOr<v1::ArtifactVersion> chooseVersion(Step& step, const std::string& job_id, int number);

}  // namespace tessera::server
