#pragma once

#include <memory>
#include <string>

#include "server/queue/workflow.h"

namespace tessera::server {

/// Implements Workflow::submit() for all kinds of requests.
std::unique_ptr<Submission> submissionOf(v1::CreateJobRequest request, const v1::Target& target, std::string project,
                                         v1::TuneMode mode, const Rules& rules);

}  // namespace tessera::server
