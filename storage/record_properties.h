#pragma once

#include <string>

#include "tessera/v1/record.pb.h"

/// Properties derived from a tuning record, by which rows are found and merged.
namespace tessera::storage {

/// Whether the trial failed: wrong, refused, crashed or timed out.
bool failed(const v1::TuningRecord& record);

/// Speedup over the default tree, measured alternately; 0 if not compared or failed.
double speedOf(const v1::TuningRecord& record);

/// SHA-256 of the record without its id, project and derived fields. Records of two databases with equal hashes are the
/// same measurement.
std::string contentHash(const v1::TuningRecord& record);

/// Returns the record with its derived fields set (the hash of the tree).
v1::TuningRecord completed(v1::TuningRecord record);
/// New id of an imported record whose own is taken, derived from its content and project.
std::string idOfMerged(const std::string& project, const std::string& content_hash);
/// contentHash() without a copy; modifies the record temporarily.
std::string contentHashOf(v1::TuningRecord& record);

}  // namespace tessera::storage
