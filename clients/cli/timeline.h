#pragma once

#include <string>
#include <vector>

#include "clients/cli/drawing/chart.h"
#include "proto/messages/job_timeline.h"

namespace tessera::client {

/// Who worked on a job, and when, as a picture: a lane for each of a worker's.
Gantt ganttOf(const std::string& job, const std::vector<Span>& spans);

}  // namespace tessera::client
