#pragma once

#include <string>
#include <vector>

#include "clients/cli/drawing/chart.h"
#include "proto/messages/job_timeline.h"

namespace tessera::client {

/// A Gantt chart of a job's tasks, with one lane for each slot of a worker.
Gantt ganttOf(const std::string& job, const std::vector<Span>& spans);

}  // namespace tessera::client
